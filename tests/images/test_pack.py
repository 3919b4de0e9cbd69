import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch.errors import DamagedPack
from mocosearch.images.pack import CHANGED, Pack, UnpackedPhoto
from mocosearch.images.packed import PackedPhoto, Pixels, images_of, map_pixels
from mocosearch.images.walk import find_photos
from mocosearch_index.errors import DiskFull


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


def pixels_size(folder: Path) -> int:
    (pixels,) = (folder / "pack").glob("pixels*")
    return pixels.stat().st_size


def assert_holds(pack: Pack, packed: list[PackedPhoto], photos: Path) -> None:
    assert_pixels_hold(pack.pixels(), packed, photos)


def assert_pixels_hold(pixels: Pixels, packed: list[PackedPhoto], photos: Path) -> None:
    for photo, image in zip(packed, images_of(pixels, packed), strict=True):
        with Image.open(photos / os.fsdecode(photo.stamp.path)) as original:
            assert np.array_equal(image, np.asarray(original))


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
    size = pixels_size(tmp_path)
    write_photo(photos / "3.png", size=(31, 20), seed=9)
    after, _ = update(pack_at(tmp_path), photos)
    assert [b == a for b, a in zip(before, after, strict=True)] == [True, True, True, False, True]
    assert pixels_size(tmp_path) == size + 31 * 20 * 3
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
    (pixels,) = (tmp_path / "pack").glob("pixels*")
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


PHOTO = 30 * 20 * 3  # bytes


def test_pixels_of_replaced_and_vanished_files_are_given_back(tmp_path: Path, photos: Path) -> None:
    pack = pack_at(tmp_path)
    update(pack, photos)
    for seed in range(10, 40):
        write_photo(photos / f"{seed % 3}.png", seed=seed)
        packed, _ = update(pack, photos)
        assert pixels_size(tmp_path) <= 2 * 5 * PHOTO
        assert_holds(pack, packed, photos)
    for number in range(4):
        (photos / f"{number}.png").unlink()
    packed, _ = update(pack, photos)
    assert pixels_size(tmp_path) == PHOTO
    assert_holds(pack, packed, photos)


def test_photos_that_are_not_listed_but_exist_stay_packed(tmp_path: Path, photos: Path) -> None:
    pack = pack_at(tmp_path)
    stamps = list(find_photos(photos))
    pack.update(photos, stamps)
    pack.update(photos, stamps[:1])  # a run over an older list
    assert pixels_size(tmp_path) == 5 * PHOTO


def test_pixels_that_another_run_reads_stay_where_they_are(tmp_path: Path, photos: Path) -> None:
    reading = pack_at(tmp_path)
    packed, _ = update(reading, photos)
    before = [image.copy() for image in images_of(reading.pixels(), packed)]
    writing = pack_at(tmp_path)
    for number in range(4):
        (photos / f"{number}.png").unlink()
    update(writing, photos)
    for image, old in zip(images_of(reading.pixels(), packed), before, strict=True):
        assert np.array_equal(image, old)
    reading.close()
    update(writing, photos)
    assert pixels_size(tmp_path) == PHOTO


KILLED_COMPACTING = """
import os, signal, sys
from pathlib import Path
from mocosearch.images import pack
from mocosearch.images.walk import find_photos
folder, photos, when = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def dying(call):
    def die(*arguments, **options):
        os.kill(os.getpid(), signal.SIGKILL)
    return die
if when == "written":
    pack.sync_folder = dying(pack.sync_folder)
else:
    Path.unlink = dying(Path.unlink)
pack.Pack(folder / "pack", short_side=64).update(photos, find_photos(photos))
"""


@pytest.mark.parametrize("when", ["written", "committed"])
def test_after_a_kill_in_the_middle_of_giving_back_all_is_well(tmp_path: Path, photos: Path, when: str) -> None:
    pack = pack_at(tmp_path)
    update(pack, photos)
    pack.close()
    for number in range(4):
        (photos / f"{number}.png").unlink()
    killed = subprocess.run([sys.executable, "-c", KILLED_COMPACTING, tmp_path, photos, when], check=False)
    assert killed.returncode == -9
    assert len(list((tmp_path / "pack").glob("pixels*"))) == 2
    pack = pack_at(tmp_path)
    packed, _ = update(pack, photos)
    assert pixels_size(tmp_path) == PHOTO
    assert_holds(pack, packed, photos)


@pytest.mark.parametrize("left", [0, PHOTO, 5 * PHOTO - 1])
def test_a_file_of_pixels_that_was_deleted_or_cut_off_is_filled_again(tmp_path: Path, photos: Path, left: int) -> None:
    update(pack_at(tmp_path), photos)
    (pixels,) = (tmp_path / "pack").glob("pixels*")
    os.truncate(pixels, left)
    pack = pack_at(tmp_path)
    packed, skipped = update(pack, photos)
    assert not skipped
    assert_holds(pack, packed, photos)


def test_no_photo_gets_the_pixels_that_are_written_where_its_own_were_cut_off(tmp_path: Path) -> None:
    for number in range(3):
        write_photo(tmp_path / f"z{number}.png", seed=number)
    pack = pack_at(tmp_path)
    update(pack, tmp_path)
    for number in range(130):  # more than are packed at once, and before the others
        write_photo(tmp_path / f"a{number:03}.png", seed=100 + number)
    update(pack, tmp_path)
    os.truncate(pack.pixels_path, 0)
    packed, skipped = update(pack, tmp_path)
    assert not skipped
    assert_holds(pack, packed, tmp_path)


def other_columns(table: Path) -> None:
    table.unlink()
    with closing(sqlite3.connect(table)) as connection:
        connection.execute("CREATE TABLE photos (path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER)")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "overwritten": lambda table: table.write_bytes(b"hello" * 1000),
    "cut off": lambda table: os.truncate(table, 4096),
    "cut off in a page": lambda table: os.truncate(table, 6000),
    "overwritten behind the schema": lambda table: table.write_bytes(table.read_bytes()[:4096] + b"x" * 8192),
    "other columns": other_columns,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_pack_is_begun_anew(tmp_path: Path, photos: Path, damage: Callable[[Path], object]) -> None:
    pack = pack_at(tmp_path)
    update(pack, photos)
    pack.close()
    damage(tmp_path / "pack" / "pack.sqlite")
    pack = pack_at(tmp_path)
    packed, skipped = update(pack, photos)
    assert not skipped
    assert_holds(pack, packed, photos)
    assert pixels_size(tmp_path) == 5 * PHOTO


def test_a_damaged_pack_that_others_use_is_named_and_left_to_them(tmp_path: Path, photos: Path) -> None:
    using = pack_at(tmp_path)
    packed, _ = update(using, photos)
    DAMAGES["overwritten"](tmp_path / "pack" / "pack.sqlite")
    for refused in (lambda: pack_at(tmp_path), lambda: update(using, photos)):
        with pytest.raises(DamagedPack, match=f"'{tmp_path / 'pack'}' is damaged.*delete the folder") as caught:
            refused()
        assert "\n" not in str(caught.value)
    assert_pixels_hold(map_pixels(tmp_path / "pack" / "pixels-0.u8"), packed, photos)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here: needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_one_readable_error_and_leaves_what_was_committed(small_disk: Path, photos: Path) -> None:
    pack = Pack(small_disk / "pack", short_side=400)
    packed, _ = pack.update(photos, find_photos(photos))
    write_photo(photos / "large.png", size=(600, 400))
    with pytest.raises(DiskFull, match="No space left on the disk"):
        pack.update(photos, find_photos(photos))
    assert pack.pixels_path.stat().st_size == 5 * PHOTO  # the torn photo takes no room
    assert_holds(pack, packed, photos)


def test_without_room_for_a_second_copy_nothing_is_given_back_and_nothing_fails(small_disk: Path, photos: Path) -> None:
    for number in range(5):
        write_photo(photos / f"{number}.png", size=(150, 150), seed=number)
    pack = Pack(small_disk / "pack", short_side=400)
    update(pack, photos)
    for number in range(3):
        (photos / f"{number}.png").unlink()
    packed, _ = update(pack, photos)
    assert pack.pixels_path.stat().st_size == 5 * 150 * 150 * 3
    assert_holds(pack, packed, photos)
