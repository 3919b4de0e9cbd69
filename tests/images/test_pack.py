import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch.images.pack import CHANGED, Pack, PackedPhoto, UnpackedPhoto, images_of
from mocosearch.images.walk import find_photos


def write_photo(path: Path, size: tuple[int, int] = (30, 20), seed: int = 0) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(5):
        write_photo(folder / f"{number}.png", seed=number)
    return folder


def pack_at(folder: Path, short_side: int = 64) -> Pack:
    return Pack(folder / "pack", short_side=short_side)


def update(pack: Pack, photos: Path) -> tuple[list[PackedPhoto], list[UnpackedPhoto]]:
    return pack.update(photos, list(find_photos(photos)))


def test_small_photos_are_kept_pixel_for_pixel(tmp_path: Path, photos: Path) -> None:
    pack = pack_at(tmp_path)
    packed, skipped = update(pack, photos)
    assert not skipped
    assert [photo.stamp.path for photo in packed] == [f"{n}.png".encode() for n in range(5)]
    for photo, image in zip(packed, images_of(pack.pixels(), packed), strict=True):
        with Image.open(photos / os.fsdecode(photo.stamp.path)) as original:
            assert np.array_equal(image, np.asarray(original))


def test_large_photos_are_reduced_to_the_short_side(tmp_path: Path, photos: Path) -> None:
    write_photo(photos / "large.png", size=(300, 150))
    pack = pack_at(tmp_path)
    packed, _ = update(pack, photos)
    (large,) = [image for image in images_of(pack.pixels(), packed) if len(image) > 20]
    assert large.shape == (64, 128, 3)


def test_an_unchanged_photo_is_not_decoded_again(tmp_path: Path, photos: Path) -> None:
    before, _ = update(pack_at(tmp_path), photos)
    size = (tmp_path / "pack" / "pixels.u8").stat().st_size
    write_photo(photos / "3.png", size=(31, 20), seed=9)
    after, _ = update(pack_at(tmp_path), photos)
    assert [b == a for b, a in zip(before, after, strict=True)] == [True, True, True, False, True]
    assert (tmp_path / "pack" / "pixels.u8").stat().st_size == size + 31 * 20 * 3
    with Image.open(photos / "3.png") as original:
        assert np.array_equal(list(images_of(pack_at(tmp_path).pixels(), after))[3], np.asarray(original))


def test_a_file_that_is_no_image_is_named_and_shifts_nothing(tmp_path: Path, photos: Path) -> None:
    (photos / "2.png").write_text("not an image")
    pack = pack_at(tmp_path)
    packed, skipped = update(pack, photos)
    assert [(photo.path, photo.reason) for photo in skipped] == [(b"2.png", "not-an-image")]
    assert [photo.stamp.path for photo in packed] == [b"0.png", b"1.png", b"3.png", b"4.png"]
    with Image.open(photos / "3.png") as original:
        assert np.array_equal(list(images_of(pack.pixels(), packed))[2], np.asarray(original))


def test_a_file_other_than_the_one_that_was_found_is_skipped_until_it_is_back(tmp_path: Path, photos: Path) -> None:
    stamps = list(find_photos(photos))
    content = (photos / "1.png").read_bytes()
    (photos / "1.png").unlink()
    write_photo(photos / "2.png", size=(40, 40))
    pack = pack_at(tmp_path)
    _, skipped = pack.update(photos, stamps)
    assert [(photo.path, photo.reason) for photo in skipped] == [(b"1.png", CHANGED), (b"2.png", CHANGED)]
    (photos / "1.png").write_bytes(content)
    os.utime(photos / "1.png", ns=(stamps[1].mtime_ns, stamps[1].mtime_ns))
    _, skipped = pack.update(photos, stamps)
    assert [photo.path for photo in skipped] == [b"2.png"]


def test_progress_counts_up_to_all_photos(tmp_path: Path, photos: Path) -> None:
    seen: list[int] = []
    pack_at(tmp_path).update(photos, find_photos(photos), progress=seen.append)
    assert seen[-1] == 5


KILLED = """
import os, signal, sys
from pathlib import Path
from mocosearch.images import pack
from mocosearch.images.walk import find_photos
pack._PHOTOS_A_COMMIT = 2
def die(done):
    if done >= 4:
        os.kill(os.getpid(), signal.SIGKILL)
folder, photos = map(Path, sys.argv[1:])
pack.Pack(folder / "pack", short_side=64).update(photos, find_photos(photos), progress=die)
"""


def test_after_a_kill_the_committed_photos_are_reused_and_the_rest_is_packed(tmp_path: Path, photos: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, photos], check=False)
    assert killed.returncode == -9
    pixels = tmp_path / "pack" / "pixels.u8"
    assert pixels.stat().st_size == 4 * 30 * 20 * 3
    with pixels.open("ab") as file:
        file.write(b"torn")  # what a kill in the middle of a write leaves
    pack = pack_at(tmp_path)
    packed, skipped = update(pack, photos)
    assert not skipped
    assert pixels.stat().st_size == 5 * 30 * 20 * 3 + len(b"torn")
    for photo, image in zip(packed, images_of(pack.pixels(), packed), strict=True):
        with Image.open(photos / os.fsdecode(photo.stamp.path)) as original:
            assert np.array_equal(image, np.asarray(original))
