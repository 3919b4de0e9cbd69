"""Copies among the photos of a real library: found, told apart, with the photo worth keeping."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.duplicates.find import DuplicateReport, Group, find_duplicates
from mocosearch.duplicates.threshold import load_calibration, save_calibration
from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.errors import PhotoGone
from mocosearch.library import Library
from mocosearch.nets import build_backbone

PHOTOS = 60  # enough for their vectors to be spread


def picture(seed: int) -> Image.Image:
    patches = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize((160, 120), Image.Resampling.NEAREST)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Sixty photos, one of them twice, four with a copy each."""
    root = tmp_path_factory.mktemp("photos")
    for seed in range(PHOTOS):
        picture(seed).save(root / f"{seed:02}.bmp")
    shutil.copy(root / "00.bmp", root / "00 again.bmp")
    picture(1).resize((80, 60), Image.Resampling.BICUBIC).save(root / "01 small.jpg")
    picture(2).save(root / "02 mail.jpg", quality=60)
    picture(3).transpose(Image.Transpose.ROTATE_90).save(root / "03 turned.jpg", quality=90)
    picture(4).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(root / "04 mirrored.jpg", quality=90)
    torch.manual_seed(0)
    card = EncoderCard("resnet18", False, 128, "nothing", 0, 0, "untrained", "")
    sizes = Preprocessing(64, 64, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    encoder = Encoder(build_backbone("resnet18"), card, sizes, torch.device("cpu"))
    with Library.create(root, encoder) as library:
        library.update()
    with Library.open(root) as library:
        yield library


@pytest.fixture(scope="module")
def report(library: Library) -> DuplicateReport:
    return find_duplicates(library, turned=True)


def contents(library: Library) -> set[bytes]:
    return {photo.content_hash or b"" for photo in library.index.photos("indexed")}


def by_keeper(report: DuplicateReport) -> dict[str, Group]:
    return {group.keeper.path.decode(): group for group in report.groups}


def test_every_copy_is_found_and_nothing_else(report: DuplicateReport) -> None:
    found = {name: [copy.photo.path.decode() for copy in group.copies] for name, group in by_keeper(report).items()}
    assert found == {
        "00.bmp": ["00 again.bmp"],
        "01.bmp": ["01 small.jpg"],
        "02.bmp": ["02 mail.jpg"],
        "03.bmp": ["03 turned.jpg"],
        "04.bmp": ["04 mirrored.jpg"],
    }
    assert report.photos == PHOTOS + 5
    assert (report.copies, report.turned, report.turned_left_out, report.unreadable) == (5, True, False, 0)


def test_identical_and_nearly_identical_are_told_apart(report: DuplicateReport) -> None:
    groups = by_keeper(report)
    assert [name for name, group in groups.items() if group.identical] == ["00.bmp"]
    [same], [small] = groups["00.bmp"].copies, groups["01.bmp"].copies
    assert (same.identical, same.likeness, groups["00.bmp"].why) == (True, 1.0, "oldest")
    assert not small.identical
    assert small.likeness < 1
    assert groups["01.bmp"].why == "most pixels"
    assert groups["02.bmp"].why == "largest file"


def test_how_a_turned_copy_lies_is_said(report: DuplicateReport) -> None:
    groups = by_keeper(report)
    turns = {name: group.copies[0].turn for name, group in groups.items()}
    assert turns == {
        "00.bmp": None,
        "01.bmp": None,
        "02.bmp": None,
        "03.bmp": "turned left",
        "04.bmp": "mirrored",
    }


def test_the_largest_gain_comes_first(report: DuplicateReport) -> None:
    gains = [sum(copy.photo.size for copy in group.copies) for group in report.groups]
    assert gains == sorted(gains, reverse=True)
    assert report.bytes_to_gain == sum(gains)


def test_the_threshold_is_measured_and_kept(library: Library, report: DuplicateReport) -> None:
    measured = report.calibration
    assert measured is not None
    assert measured.upright.tells
    assert measured.turned.tells
    assert (measured.copied, measured.compared) == (PHOTOS + 4, PHOTOS + 4)
    assert set(measured.upright.recall_by_kind) >= {"recompressed", "cropped"}
    steps: list[str] = []
    again = find_duplicates(library, turned=False, progress=lambda step, done, total: steps.append(step))
    assert again.calibration == measured
    assert set(steps) == {"Reading", "Placing", "Comparing"}
    assert "04.bmp" not in by_keeper(again)


def test_it_is_measured_again_when_a_tenth_of_the_contents_changed(library: Library, report: DuplicateReport) -> None:
    hashes = sorted(contents(library))
    new = [bytes([place]) * 16 for place in range(len(hashes))]  # some before, some after the hashes of the photos
    few, many = len(hashes) // 20, len(hashes) // 8
    assert load_calibration(library.index, [*hashes, *new[:few]]) == report.calibration
    assert load_calibration(library.index, hashes[few:]) == report.calibration
    for changed in ([*hashes, *new[:many]], hashes[many:], hashes[few:] + new[: many - few]):
        assert load_calibration(library.index, changed) is None


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"content": {}, "crc32": 1}'])
def test_a_damaged_calibration_is_no_calibration(library: Library, report: DuplicateReport, damage: bytes) -> None:
    [path] = (library.index.folder / "duplicates").iterdir()
    hashes = contents(library)
    whole = path.read_bytes()
    try:
        path.write_bytes(damage or whole.replace(b'"compared": 64', b'"compared": 65'))
        assert load_calibration(library.index, hashes) is None
    finally:
        path.write_bytes(whole)
    assert load_calibration(library.index, hashes) == report.calibration


def test_a_calibration_is_not_kept_where_the_index_was_deleted_meanwhile(
    library: Library, report: DuplicateReport, tmp_path: Path
) -> None:
    shutil.copytree(library.index.folder, tmp_path / ".mocosearch")
    assert report.calibration is not None
    with Library.open(tmp_path) as lost:
        shutil.rmtree(lost.index.folder)
        save_calibration(lost.index, contents(library), report.calibration)
        assert not lost.index.folder.exists()


def test_identical_photos_alone_need_no_encoder(library: Library) -> None:
    with Library.open(library.root) as fresh:
        found = find_duplicates(fresh, near=False)
        assert "encoder" not in vars(fresh)
    assert list(by_keeper(found)) == ["00.bmp"]
    assert found.calibration is None


def test_a_named_threshold_is_taken_for_turned_copies_too(library: Library, report: DuplicateReport) -> None:
    strict = find_duplicates(library, threshold=1.0, turned=False)
    assert list(by_keeper(strict)) == ["00.bmp"]
    assert report.calibration is not None
    lenient = find_duplicates(library, threshold=report.calibration.turned.likeness, turned=True)
    assert {"03.bmp", "04.bmp"} <= set(by_keeper(lenient))
    assert lenient.calibration is None


def test_photos_that_are_gone_cannot_be_measured_or_turned(library: Library, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copytree(library.index.folder, moved / ".mocosearch")
    shutil.rmtree(moved / ".mocosearch" / "duplicates")
    with Library.open(moved) as gone:
        with pytest.raises(PhotoGone, match="--threshold"):
            find_duplicates(gone)
        found = find_duplicates(gone, threshold=0.9, turned=True)
    assert found.unreadable == PHOTOS + 4 - sum(not copy.identical for group in found.groups for copy in group.copies)


def test_a_library_of_one_photo_has_no_copies(library: Library, tmp_path: Path) -> None:
    picture(0).save(tmp_path / "one.png")
    with Library.create(tmp_path, library.encoder) as one:
        one.update()
        assert find_duplicates(one).groups == []
