"""The pool gives what decoding in place gives, in order; a decoder that runs wild costs one photo, not the run."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch.images.decode import Undecodable
from mocosearch.images.decode_pool import DecodePool
from mocosearch.images.geometry import Geometry
from mocosearch.images.prepared import Prepared, prepare

SMALL = Geometry(resize=40, crop=32)


def write_noise(path: Path, seed: int, size: tuple[int, int] = (64, 48)) -> Path:
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(values).save(path)
    return path


@pytest.fixture(scope="module")
def pool() -> Iterator[DecodePool]:
    with DecodePool(SMALL, workers=2) as pool:
        yield pool


def test_photos_come_back_in_order_with_what_decoding_in_place_gives(tmp_path: Path, pool: DecodePool) -> None:
    paths = [write_noise(tmp_path / f"{seed}.{kind}", seed) for seed in range(10) for kind in ("png", "jpg")]
    results = list(pool.prepare(enumerate(paths), ahead=5))
    assert [key for key, _ in results] == list(range(len(paths)))
    for (_, result), path in zip(results, paths, strict=True):
        expected = prepare(path, SMALL, nullcontext())
        assert isinstance(result, Prepared)
        assert (result.pixels == expected.pixels).all()
        facts = result.content_hash, result.width, result.height, result.taken_at
        assert facts == (expected.content_hash, 64, 48, None)


def test_what_is_no_photo_comes_back_with_the_reason(tmp_path: Path, pool: DecodePool) -> None:
    (tmp_path / "empty.jpg").touch()
    names = ["gone.jpg", "empty.jpg", "photo.png"]
    write_noise(tmp_path / "photo.png", 1)
    gone, empty, photo = (result for _, result in pool.prepare(((name, tmp_path / name) for name in names), ahead=3))
    assert isinstance(gone, Undecodable)
    assert isinstance(empty, Undecodable)
    assert (gone.reason, empty.reason) == ("io", "empty")
    assert isinstance(photo, Prepared)
