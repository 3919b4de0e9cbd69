import hashlib
import io
import os
import shutil
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from mocosearch.images.decode import DecodedImage, Undecodable, decode
from mocosearch_app.service import private
from mocosearch_app.service.pictures.thumbnails import Kind, Thumbnails
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
    data = Thumbnails.of_library(index).get(photo_of(original), Kind.THUMBNAIL, original, decoded)
    thumbnail = Image.open(io.BytesIO(data))
    assert (thumbnail.format, thumbnail.size) == ("WEBP", (384, 512))
    assert not thumbnail.getexif()
    assert not {"exif", "xmp", "icc_profile", "comment"} & thumbnail.info.keys()
    assert b"private" not in data


def test_a_preview_is_large_and_has_a_name_of_its_own(original: Path, index: Path) -> None:
    with Image.open(original) as image:
        image.resize((4000, 3000)).save(original, exif=image.getexif())
    thumbnails, photo = Thumbnails.of_library(index), photo_of(original)
    small = thumbnails.get(photo, Kind.THUMBNAIL, original, decoded)
    preview = Image.open(io.BytesIO(thumbnails.get(photo, Kind.PREVIEW, original, decoded)))
    assert (preview.format, preview.size, dict(preview.getexif())) == ("WEBP", (1200, 1600), {})
    assert thumbnails.get(photo, Kind.THUMBNAIL, original, decoded) == small
    assert thumbnails.name(photo, Kind.PREVIEW) != thumbnails.name(photo, Kind.THUMBNAIL)


def test_a_small_photo_is_not_enlarged(tmp_path: Path, index: Path) -> None:
    path = tmp_path / "tile.png"
    Image.new("RGB", (64, 48), "teal").save(path)
    data = Thumbnails.of_library(index).get(photo_of(path), Kind.THUMBNAIL, path, decoded)
    assert Image.open(io.BytesIO(data)).size == (64, 48)


def test_a_thumbnail_is_made_once_and_kept_for_the_next_process(original: Path, index: Path) -> None:
    photo = photo_of(original)
    first = Thumbnails.of_library(index)
    data = first.get(photo, Kind.THUMBNAIL, original, decoded)
    original.unlink()
    second = Thumbnails.of_library(index)
    assert second.name(photo, Kind.THUMBNAIL) == first.name(photo, Kind.THUMBNAIL)
    assert second.get(photo, Kind.THUMBNAIL, original, decoded) == data


def test_a_photo_that_changed_gets_another_thumbnail(original: Path, index: Path) -> None:
    thumbnails = Thumbnails.of_library(index)
    before = photo_of(original)
    old = thumbnails.get(before, Kind.THUMBNAIL, original, decoded)
    Image.new("RGB", (400, 300), "red").save(original)
    after = photo_of(original)
    assert thumbnails.name(after, Kind.THUMBNAIL) != thumbnails.name(before, Kind.THUMBNAIL)
    assert not thumbnails.is_genuine(thumbnails.name(before, Kind.THUMBNAIL), after, Kind.THUMBNAIL)
    assert thumbnails.get(after, Kind.THUMBNAIL, original, decoded) != old


def test_a_name_is_good_for_one_photo_of_one_library(original: Path, tmp_path: Path, index: Path) -> None:
    (tmp_path / "other").mkdir()
    mine, other = Thumbnails.of_library(index), Thumbnails.of_library(tmp_path / "other")
    photo = photo_of(original)
    name = mine.name(photo, Kind.THUMBNAIL)
    assert mine.photo_id(name) == photo.id
    assert mine.is_genuine(name, photo, Kind.THUMBNAIL)
    assert not mine.is_genuine(name, replace(photo, id=2), Kind.THUMBNAIL)
    assert not mine.is_genuine(name, photo, Kind.PREVIEW)
    assert not other.is_genuine(name, photo, Kind.THUMBNAIL)
    assert not mine.is_genuine(name[:-1] + ("0" if name[-1] != "0" else "1"), photo, Kind.THUMBNAIL)


@pytest.mark.parametrize("name", ["", "1", "1-", "-" + "a" * 32, "../key", "1-" + "A" * 32, "f" * 16 + "-" + "a" * 32])
def test_a_name_that_was_never_given_has_no_photo(name: str) -> None:
    assert Thumbnails.photo_id(name) is None


def test_nothing_that_is_kept_tells_a_path_or_is_open_to_others(original: Path, index: Path) -> None:
    Thumbnails.of_library(index).get(photo_of(original), Kind.THUMBNAIL, original, decoded)
    files = [path for path in index.rglob("*") if path.is_file()]
    assert len(files) == 2  # the key and one thumbnail
    assert not any("holiday" in str(path.relative_to(index)) for path in files)
    assert stat.S_IMODE((index / "thumbnails").stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:8], lambda data: b"<html>" + data[6:]])
def test_a_kept_file_that_is_cut_or_another_ones_is_made_anew(
    original: Path, index: Path, damage: Callable[[bytes], bytes]
) -> None:
    thumbnails, photo = Thumbnails.of_library(index), photo_of(original)
    data = thumbnails.get(photo, Kind.THUMBNAIL, original, decoded)
    [kept] = (index / "thumbnails").rglob("*.webp")
    kept.write_bytes(damage(data))
    assert thumbnails.get(photo, Kind.THUMBNAIL, original, decoded) == data
    assert kept.read_bytes() == data


def test_different_ones_are_made_at_the_same_time_and_the_same_one_only_once(original: Path, index: Path) -> None:
    thumbnails, photo = Thumbnails.of_library(index), photo_of(original)
    both, calls = threading.Barrier(2, timeout=30), []

    def together(path: Path, short_side: int) -> DecodedImage:
        calls.append(short_side)
        both.wait()  # until the other kind is decoded, too
        return decoded(path, short_side)

    with ThreadPoolExecutor(6) as threads:
        asked = [kind for kind in Kind for _ in range(3)]
        made = list(threads.map(lambda kind: thumbnails.get(photo, kind, original, together), asked))
    assert sorted(calls) == sorted(kind.short_side for kind in Kind)
    assert made == [thumbnails.get(photo, kind, original, together) for kind in asked]


def test_all_together_keep_to_their_limit(tmp_path: Path, index: Path) -> None:
    path = tmp_path / "tile.png"
    Image.new("RGB", (8, 8), "teal").save(path)
    picture, photo = decoded(path, 8), photo_of(path)
    (index / "thumbnails").mkdir()
    size = len(Thumbnails.of_library(index).get(photo, Kind.THUMBNAIL, path, decoded))
    thumbnails = Thumbnails(index / "thumbnails", bytes(32), limit=256 * size)
    for number in range(300):
        thumbnails.get(replace(photo, id=number), Kind.THUMBNAIL, path, lambda path, side: picture)
    kept = list((index / "thumbnails").rglob("*.webp"))
    assert 100 < len(kept) <= 256
    assert sum(path.stat().st_size for path in kept) <= 256 * size


def test_without_a_place_beside_the_index_thumbnails_live_in_the_temporary_folder(original: Path, index: Path) -> None:
    (index / "thumbnails").write_text("a file where the folder should be")
    thumbnails = Thumbnails.of_library(index)
    assert (
        Image.open(io.BytesIO(thumbnails.get(photo_of(original), Kind.THUMBNAIL, original, decoded))).format == "WEBP"
    )
    assert any((private.private_folder() / "thumbnails").rglob("*.webp"))


def test_thumbnails_that_vanished_cost_time_and_nothing_else(original: Path, index: Path) -> None:
    thumbnails = Thumbnails.of_library(index)
    shutil.rmtree(index / "thumbnails")
    assert thumbnails.get(photo_of(original), Kind.THUMBNAIL, original, decoded).startswith(b"RIFF")


def test_an_original_that_is_no_picture_any_more_is_undecodable(original: Path, index: Path) -> None:
    photo = photo_of(original)
    original.write_bytes(b"text")
    with pytest.raises(Undecodable):
        Thumbnails.of_library(index).get(photo, Kind.THUMBNAIL, original, decoded)


def test_the_private_folder_is_private() -> None:
    assert stat.S_IMODE(os.stat(private.private_folder()).st_mode) == 0o700  # noqa: PTH116
