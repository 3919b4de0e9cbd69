"""bench/decisions.py at a small size."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bench.decision_figures import FIGURES, Spread, in_small_libraries, row
from bench.decision_vectors import COPIES, Photos
from bench.decisions import compare
from mocosearch.encoders import IMAGENET, Encoder, EncoderCard
from mocosearch.nets import build_backbone

CARD = EncoderCard("resnet18", False, None, "nothing", None, 0, "none", "")


def test_it_compares_what_is_searched_with_today_and_keeps_the_vectors(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for number in range(12):
        folder = tmp_path / "photos" / ("dark" if number % 2 else "bright")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 100, (40, 50, 3), dtype=np.uint8) + np.uint8(100 * (number % 2))
        Image.fromarray(pixels).save(folder / f"{number}.png")
    Encoder(build_backbone("resnet18"), CARD, IMAGENET, torch.device("cpu")).save(tmp_path / "encoder")
    case = ("noise", str(tmp_path / "encoder"), tmp_path / "photos", 32, tmp_path / "cache", 5)
    words, table, small = compare(*case)
    assert words.endswith("32 pixels; 12 photos of 2 classes, copies of 5")
    assert small == []
    rows = {cells[0]: cells for cells in table}
    base = "**7/8 of the center, 512 numbers as the encoder makes them**"
    assert all(0 <= float(cell) <= 100 for cell in rows[base][1:])
    few = "as an index searches with --whiten"  # 12 photos are too few for it
    assert rows[few][1:] == ["+0.0 (+0.0 .. +0.0) tie"] * 4
    assert {"center", "whole, squashed", "averaged with the mirrored picture", "whitened", "PCA, 64 numbers"} <= set(
        rows
    )
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*.npy")}
    assert len(kept) == 4
    assert compare(*case)[1] == table
    assert {file: file.stat().st_mtime_ns for file in kept} == kept  # nothing is embedded a second time


def test_whitening_evens_out_the_variances_and_a_floor_does_so_in_part() -> None:
    vectors = (np.random.default_rng(0).normal(size=(400, 3)) * (3, 2, 1) + 5).astype(np.float32)
    assert np.cov(Spread(power=-0.5)(vectors, vectors), rowvar=False) == pytest.approx(np.eye(3), abs=0.01)
    soft = Spread(power=-0.5, floor=0.5, dim=2)(vectors, vectors)
    low, high = soft.var(axis=0)
    assert 0.3 < low < high < 1  # the largest variance last
    centered = Spread()(vectors, vectors)
    assert np.linalg.norm(centered, axis=1) == pytest.approx(
        np.linalg.norm(vectors - vectors.mean(0), axis=1), rel=1e-4
    )


def test_a_difference_that_a_few_photos_could_turn_is_a_tie() -> None:
    before = {name: np.zeros(100) for name in FIGURES}
    after = {
        name: np.where(np.arange(100) < count, 1.0, 0.0) for name, count in zip(FIGURES, (0, 1, 30, 100), strict=True)
    }
    _, *cells = row("after", after, before)
    assert [cell.endswith(" tie") for cell in cells] == [True, True, False, False]
    assert cells[2].startswith("+30.0 (")


def test_libraries_of_few_photos_hold_the_photos_whose_copies_are_asked_for() -> None:
    generator = np.random.default_rng(0)
    photos = Photos.of([Path(f"{number}.jpg") for number in range(60)], copied=20)
    of_photos = generator.normal(size=(60, 16)).astype(np.float32)
    copies = np.repeat(of_photos[photos.copied], len(COPIES), axis=0)  # as like their photos as can be
    vectors = np.concatenate([of_photos, copies])
    labels = np.arange(60) % 2
    as_it_is, blind = Spread(), Spread(power=-0.5, dim=1)  # one number tells only on which side a photo is
    [[words, *_, copies_first, turned_first]] = in_small_libraries(vectors, photos, labels, as_it_is, [30])
    assert (words, copies_first, turned_first) == ("30 photos", *["+0.0 (+0.0 .. +0.0) tie"] * 2)
    [[*_, copies_first, _]] = in_small_libraries(vectors, photos, labels, blind, [30])
    assert copies_first.startswith("-")
