import asyncio
import os
from dataclasses import replace
from email.message import Message
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from starlette import types

from mocosearch.errors import PhotoGone
from mocosearch.images.prepared import content_hash
from mocosearch_app.api.photos import WholeFile
from mocosearch_app.service.pictures.originals import Original, _disposition, genuine_path, open_original
from mocosearch_index.records import Photo

INLINE = {"jpg": "image/jpeg", "png": "image/png", "gif": "image/gif", "webp": "image/webp", "bmp": "image/bmp"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    return folder


def indexed(root: Path, name: str) -> Photo:
    """What the catalog knows of a file as it is now."""
    status, data = (root / name).stat(), (root / name).read_bytes()
    return Photo(
        1, os.fsencode(name), status.st_size, status.st_mtime_ns, content_hash(data), 1, 1, None, "indexed", None, None
    )


def content(original: Original) -> bytes:
    data = b"".join(original.chunks())
    assert original.file.closed
    return data


@pytest.mark.parametrize("suffix", [*INLINE, "avif"])
def test_a_plain_picture_is_shown_as_what_it_is_whatever_its_name_says(root: Path, suffix: str) -> None:
    Image.radial_gradient("L").convert("RGB").save(root / f"real.{suffix}")
    (root / f"real.{suffix}").rename(root / "any.tiff")
    original = open_original(root, indexed(root, "any.tiff"))
    assert original.media_type == INLINE.get(suffix, f"image/{suffix}")
    assert original.disposition.startswith('inline; filename="any.tiff"')
    assert (original.size, content(original)) == (
        (root / "any.tiff").stat().st_size,
        (root / "any.tiff").read_bytes(),
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"<!DOCTYPE html><script>alert(1)</script>",
        b"II*\0\x08\0\0\0",
        b"\0\0\0\x18ftypheic\0\0\0\0",
        b"RIFF\x04\0\0\0WAVE",
        b"%PDF-1.7",
    ],
)
def test_all_else_is_to_be_saved_and_never_shown(root: Path, data: bytes) -> None:
    (root / "photo.jpg").write_bytes(data)
    original = open_original(root, indexed(root, "photo.jpg"))
    assert original.media_type == "application/octet-stream"
    assert original.disposition.startswith("attachment; ")
    assert content(original) == data


def test_a_large_file_comes_in_parts_and_never_longer_than_announced(root: Path) -> None:
    path = root / "large.jpg"
    path.write_bytes(b"\xff\xd8\xff" + os.urandom(1_000_000))
    original = open_original(root, indexed(root, "large.jpg"))
    before = path.read_bytes()
    with path.open("ab") as file:
        file.write(b"more")
    parts = list(original.chunks())
    assert len(parts) > 1
    assert b"".join(parts) == before
    assert len(before) == original.size


def test_a_photo_edited_since_is_handed_out_as_it_is_now(root: Path) -> None:
    (root / "a.jpg").write_bytes(b"before")
    photo = indexed(root, "a.jpg")
    (root / "a.jpg").write_bytes(b"edited")
    os.utime(root / "a.jpg", (1, 1))
    assert content(open_original(root, photo)) == b"edited"


def test_nothing_but_a_regular_file_is_opened(root: Path) -> None:
    (root / "a.jpg").write_bytes(b"photo")
    photo = indexed(root, "a.jpg")
    (root / "a.jpg").unlink()
    with pytest.raises(PhotoGone, match="cannot be read"):
        open_original(root, photo)
    (root / "a.jpg").mkdir()
    with pytest.raises(PhotoGone):
        open_original(root, photo)
    (root / "a.jpg").rmdir()
    os.mkfifo(root / "a.jpg")
    with pytest.raises(PhotoGone):
        open_original(root, photo)  # and does not wait for somebody who writes to the pipe


def test_a_link_that_was_indexed_is_followed_to_the_file_it_led_to(root: Path) -> None:
    outside = root.parent / "outside.jpg"
    outside.write_bytes(b"a photo kept elsewhere")
    (root / "link.jpg").symlink_to(outside)
    assert content(open_original(root, indexed(root, "link.jpg"))) == b"a photo kept elsewhere"


@pytest.mark.parametrize("secret", ["../secret.txt", ".mocosearch/thumbnails/key"])
def test_a_link_in_place_of_a_photo_opens_no_other_file(root: Path, secret: str) -> None:
    (root / ".mocosearch" / "thumbnails").mkdir(parents=True)
    (root / secret).write_bytes(b"a secret")
    (root / "album").mkdir()
    (root / "album" / "a.jpg").write_bytes(b"a photo")
    photo = indexed(root, "album/a.jpg")
    (root / "album" / "a.jpg").unlink()
    (root / "album" / "a.jpg").symlink_to(root / secret)
    with pytest.raises(PhotoGone):
        open_original(root, photo)
    (root / "album" / "a.jpg").unlink()
    (root / "album").rename(root / "moved")
    (root / "album").symlink_to((root / secret).parent)
    named_alike = replace(photo, path=b"album/" + os.fsencode(Path(secret).name))
    with pytest.raises(PhotoGone):
        open_original(root, named_alike)


@pytest.mark.parametrize("place", ["a.jpg", "album/a.jpg"])
def test_a_link_to_a_file_of_the_same_size_and_time_opens_nothing(root: Path, place: str) -> None:
    private = root.parent / "private" / "a.jpg"
    private.parent.mkdir()
    private.write_bytes(b"not yours")
    (root / "album").mkdir()
    (root / place).write_bytes(b"my photo!")
    os.utime(private, ns=(1, (root / place).stat().st_mtime_ns))
    photo = indexed(root, place)
    if place == "a.jpg":
        (root / place).unlink()
        (root / place).symlink_to(private)
    else:
        (root / "album").rename(root / "moved")
        (root / "album").symlink_to(private.parent)
    for look in (open_original, genuine_path):
        with pytest.raises(PhotoGone, match="not the file any more"):
            look(root, photo)


def test_the_folder_of_a_library_may_itself_be_reached_by_a_link(root: Path) -> None:
    (root / "a.jpg").write_bytes(b"photo")
    photo = indexed(root, "a.jpg")
    (root / "a.jpg").write_bytes(b"edited photo")
    (root.parent / "link").symlink_to(root)
    assert content(open_original(root.parent / "link", photo)) == b"edited photo"


def test_originals_that_were_refused_leave_no_file_open(root: Path) -> None:
    (root / "a.jpg").mkdir()
    (root / "b.jpg").write_bytes(b"photo")
    photo = replace(indexed(root, "b.jpg"), path=b"a.jpg")
    before = os.listdir("/dev/fd")  # noqa: PTH208
    for _ in range(5):
        with pytest.raises(PhotoGone):
            open_original(root, photo)
    assert os.listdir("/dev/fd") == before  # noqa: PTH208


def test_a_file_is_closed_when_the_client_leaves_amid_it(root: Path) -> None:
    (root / "large.jpg").write_bytes(b"\xff\xd8\xff" + bytes(1_000_000))
    original = open_original(root, indexed(root, "large.jpg"))
    answer = WholeFile(original)

    async def leave() -> None:
        got_some = asyncio.Event()

        async def send(message: types.Message) -> None:
            if message["type"] == "http.response.body":
                got_some.set()
                await asyncio.Event().wait()  # it takes no more

        async def receive() -> types.Message:
            await got_some.wait()
            return {"type": "http.disconnect"}

        await answer({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)

    asyncio.run(leave())
    assert original.file.closed


@pytest.mark.parametrize(
    ("name", "simple", "extended"),
    [
        ("IMG_1.JPG", "IMG_1.JPG", "IMG_1.JPG"),
        ("two words.jpg", "two words.jpg", "two%20words.jpg"),
        ("Grüße 🙂.jpg", "Gr__e _.jpg", "Gr%C3%BC%C3%9Fe%20%F0%9F%99%82.jpg"),
        (os.fsdecode(b"caf\xe9.jpg"), "caf_.jpg", "caf_.jpg"),
        ('a"b\\c\r\nX: y\u202egpj.exe', "a_b_c__X_ y_gpj.exe", "a_b_c__X_%20y_gpj.exe"),
        ("100%41.jpg", "100_41.jpg", "100_41.jpg"),
    ],
)
def test_names_are_told_in_ascii_and_in_full(name: str, simple: str, extended: str) -> None:
    assert _disposition(name, inline=True) == f"inline; filename=\"{simple}\"; filename*=UTF-8''{extended}"


@given(st.binary(min_size=1, max_size=255))
def test_no_name_breaks_out_of_its_header(name: bytes) -> None:
    header = _disposition(os.fsdecode(name), inline=False)
    header.encode("ascii")
    assert header.isprintable()
    message = Message()
    message["Content-Disposition"] = header
    assert message.get_content_disposition() == "attachment"
    assert len(message.get_params(header="Content-Disposition") or []) in (2, 3)
    assert "/" not in (message.get_filename() or "")
