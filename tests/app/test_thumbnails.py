import hashlib
import io
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from mocosearch.images.decode import DecodedImage, Undecodable, decode
from mocosearch_app.service import private
from mocosearch_app.service.thumbnails import SIDE, Thumbnails
from mocosearch_index.records import Photo


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """The folder of an index."""
    folder = tmp_path / "index"
    folder.mkdir()
    return folder


def decoded(path: Path, short_side: int) -> DecodedImage:
    return decode(path, short_side=short_side)


def photo_of(path: Path, photo_id: int = 1) -> Photo:
    content = hashlib.sha256(path.read_bytes()).digest()
    with Image.open(path) as image:
        size = image.size
    return Photo(photo_id, path.name.encode(), 1, 1, content, *size, None, "indexed", None, None)


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A large photo that says where it was taken."""
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    exif[0x010E] = "a private description"
    exif.get_ifd(0x8825)[2] = (48.0, 51.0, 29.6)  # GPS latitude
    path = tmp_path / "holiday.jpg"
    Image.linear_gradient("L").resize((1200, 900)).convert("RGB").save(path, exif=exif, comment=b"a comment")
    return path


def test_a_thumbnail_is_small_upright_webp_without_metadata(original: Path, index: Path) -> None:
    data = Thumbnails.of_library(index).get(photo_of(original), original, decoded)
    thumbnail = Image.open(io.BytesIO(data))
    assert (thumbnail.format, thumbnail.size) == ("WEBP", (SIDE * 3 // 4, SIDE))
    assert not thumbnail.getexif()
    assert not {"exif", "xmp", "icc_profile", "comment"} & thumbnail.info.keys()
    assert b"private" not in data


def test_a_small_photo_is_not_enlarged(tmp_path: Path, index: Path) -> None:
    path = tmp_path / "tile.png"
    Image.new("RGB", (64, 48), "teal").save(path)
    data = Thumbnails.of_library(index).get(photo_of(path), path, decoded)
    assert Image.open(io.BytesIO(data)).size == (64, 48)


def test_a_thumbnail_is_made_once_and_kept_for_the_next_process(original: Path, index: Path) -> None:
    photo = photo_of(original)
    first = Thumbnails.of_library(index)
    data = first.get(photo, original, decoded)
    original.unlink()
    second = Thumbnails.of_library(index)
    assert second.name(photo) == first.name(photo)
    assert second.get(photo, original, decoded) == data


def test_a_photo_that_changed_gets_another_thumbnail(original: Path, index: Path) -> None:
    thumbnails = Thumbnails.of_library(index)
    before = photo_of(original)
    old = thumbnails.get(before, original, decoded)
    Image.new("RGB", (400, 300), "red").save(original)
    after = photo_of(original)
    assert thumbnails.name(after) != thumbnails.name(before)
    assert not thumbnails.is_genuine(thumbnails.name(before), after)
    assert thumbnails.get(after, original, decoded) != old


def test_a_name_is_good_for_one_photo_of_one_library(original: Path, tmp_path: Path, index: Path) -> None:
    (tmp_path / "other").mkdir()
    mine, other = Thumbnails.of_library(index), Thumbnails.of_library(tmp_path / "other")
    photo = photo_of(original)
    name = mine.name(photo)
    assert mine.photo_id(name) == photo.id
    assert mine.is_genuine(name, photo)
    assert not mine.is_genuine(name, replace(photo, id=2))
    assert not other.is_genuine(name, photo)
    assert not mine.is_genuine(name[:-1] + ("0" if name[-1] != "0" else "1"), photo)


@pytest.mark.parametrize("name", ["", "1", "1-", "-" + "a" * 32, "../key", "1-" + "A" * 32, "f" * 16 + "-" + "a" * 32])
def test_a_name_that_was_never_given_has_no_photo(name: str) -> None:
    assert Thumbnails.photo_id(name) is None


def test_nothing_that_is_kept_tells_a_path_or_is_open_to_others(original: Path, index: Path) -> None:
    Thumbnails.of_library(index).get(photo_of(original), original, decoded)
    files = [path for path in index.rglob("*") if path.is_file()]
    assert len(files) == 2  # the key and one thumbnail
    assert not any("holiday" in str(path.relative_to(index)) for path in files)
    assert stat.S_IMODE((index / "thumbnails").stat().st_mode) == 0o700


def test_without_a_place_beside_the_index_thumbnails_live_in_the_temporary_folder(original: Path, index: Path) -> None:
    (index / "thumbnails").write_text("a file where the folder should be")
    thumbnails = Thumbnails.of_library(index)
    assert Image.open(io.BytesIO(thumbnails.get(photo_of(original), original, decoded))).format == "WEBP"
    assert any((private.private_folder() / "thumbnails").rglob("*.webp"))


def test_thumbnails_that_vanished_cost_time_and_nothing_else(original: Path, index: Path) -> None:
    thumbnails = Thumbnails.of_library(index)
    shutil.rmtree(index / "thumbnails")
    assert thumbnails.get(photo_of(original), original, decoded).startswith(b"RIFF")


def test_an_original_that_is_no_picture_any_more_is_undecodable(original: Path, index: Path) -> None:
    photo = photo_of(original)
    original.write_bytes(b"text")
    with pytest.raises(Undecodable):
        Thumbnails.of_library(index).get(photo, original, decoded)


def test_the_private_folder_is_private() -> None:
    assert stat.S_IMODE(os.stat(private.private_folder()).st_mode) == 0o700  # noqa: PTH116
