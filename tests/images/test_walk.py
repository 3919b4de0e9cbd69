"""Finding photos: what is given, what is left out, in which order."""

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mocosearch.errors import NoPhotos
from mocosearch.images.walk import find_photos
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EncoderIdentity

NOBODY = 65534
STRANGE_NAMES = [
    b"\xff\xfe.jpg",
    b"new\nline.jpg",
    "🌵.jpg".encode(),
    b'"quo\tted".jpg',
    b"n" * 251 + b".jpg",
    b"a\\b.png",
]
LEFT_OUT = (
    "@eaDir/a.jpg .thumbnails/a.jpg #recycle/a.jpg ._IMG.JPG $RECYCLE.BIN/a.jpg .a.jpg "
    "x/@EADIR/y/a.jpg x/.mocosearch/a.jpg __MACOSX/a.jpg lost+found/a.png"
)


def paths(root: Path) -> list[bytes]:
    return [stamp.path for stamp in find_photos(root)]


def put(root: Path, *names: str | bytes) -> None:
    for name in names:
        path = os.path.join(os.fsencode(root), os.fsencode(name))  # noqa: PTH118 - bytes paths
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(b"x" * len(name))


def test_photos_of_all_folders_come_with_size_and_time_by_full_path(tmp_path: Path) -> None:
    put(tmp_path, "b.jpg", "a/z.png", "a.jpg", "a!/k.webp", "c/d/e/deep.heic")
    os.utime(tmp_path / "b.jpg", ns=(1, 1_234_567_890_123_456_789))
    stamps = list(find_photos(tmp_path))
    assert [stamp.path for stamp in stamps] == [
        b"a!/k.webp",
        b"a.jpg",
        b"a/z.png",
        b"b.jpg",
        b"c/d/e/deep.heic",
    ]
    assert stamps[3].size == len("b.jpg")
    assert stamps[3].mtime_ns == (tmp_path / "b.jpg").stat().st_mtime_ns


@pytest.mark.parametrize("name", ["A.JPG", "a.JpG", "a.jpeg", "a.TIFF", "a.b.c.gif", "a.heic", "a.AVIF"])
def test_suffix_counts_whatever_its_case(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    assert paths(tmp_path) == [name.encode()]


@pytest.mark.parametrize("name", ["a.txt", "jpg", "a.jpg.part", "a.mp4", "a", "a.svg", ".jpg"])
def test_other_files_are_left_out(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    assert paths(tmp_path) == []


@pytest.mark.parametrize("name", LEFT_OUT.split())
def test_hidden_and_junk_names_are_left_out(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, "kept.jpg")
    assert paths(tmp_path) == [b"kept.jpg"]


def test_a_folder_that_holds_an_index_is_left_out_but_not_one_with_another_programs_catalog(tmp_path: Path) -> None:
    encoder = EncoderIdentity("f" * 16, 8, "dice")
    ImageIndex.create(tmp_path / "x" / "index", root=tmp_path, encoder=encoder).close()
    put(tmp_path, "x/index/thumbnails/a.webp", "x/b.jpg", "other/catalog.sqlite", "other/c.jpg")
    assert paths(tmp_path) == [b"other/c.jpg", b"x/b.jpg"]


def test_a_hidden_root_is_walked_because_somebody_named_it(tmp_path: Path) -> None:
    put(tmp_path / ".photos", "a.jpg")
    assert paths(tmp_path / ".photos") == [b"a.jpg"]


@pytest.mark.parametrize(
    "name",
    STRANGE_NAMES,
)
def test_any_name_that_the_file_system_allows_is_given_byte_for_byte(tmp_path: Path, name: bytes) -> None:
    put(tmp_path, name)
    assert paths(tmp_path) == [name]


def test_links_that_loop_end_and_show_each_photo_once(tmp_path: Path) -> None:
    put(tmp_path, "a/one.jpg", "b/two.jpg")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(".")
    (tmp_path / "b" / "to_a").symlink_to("../a")
    (tmp_path / "circle.jpg").symlink_to("circle.jpg")
    (tmp_path / "dangling.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "alias.jpg").symlink_to("b/two.jpg")
    assert paths(tmp_path) == [b"a/one.jpg", b"b/two.jpg"]


def test_links_out_of_the_folder_are_followed_once(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "far.jpg")
    put(tmp_path / "root", "near.jpg")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "root")
    for name in ("one", "two"):
        (tmp_path / "root" / name).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "file.jpg").symlink_to(tmp_path / "elsewhere" / "far.jpg")
    assert paths(tmp_path / "root") == [b"file.jpg", b"near.jpg"]
    (tmp_path / "root" / "file.jpg").unlink()
    assert paths(tmp_path / "root") == [b"near.jpg", b"one/far.jpg"]


def test_a_link_to_a_photo_kept_in_a_hidden_store_counts(tmp_path: Path) -> None:
    put(tmp_path, ".store/0001", ".store/more/b.jpg")
    (tmp_path / "a.jpg").symlink_to(".store/0001")
    (tmp_path / "album").symlink_to(".store/more")
    assert paths(tmp_path) == [b"a.jpg", b"album/b.jpg"]


def test_a_root_that_is_itself_a_link_works(tmp_path: Path) -> None:
    put(tmp_path / "real", "a.jpg", "d/b.jpg")
    (tmp_path / "real" / "d" / "again").symlink_to(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    assert paths(tmp_path / "link") == [b"a.jpg", b"d/b.jpg"]


def test_pipes_sockets_and_folders_named_like_photos_are_survived(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    put(tmp_path, "folder.jpg/inside.jpg")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.jpg"))
        assert paths(tmp_path) == [b"folder.jpg/inside.jpg"]


def test_folders_may_be_nested_deeper_than_python_recurses(tmp_path: Path) -> None:
    depth = sys.getrecursionlimit() + 100
    folder = os.fsencode(tmp_path)
    for _ in range(depth):
        folder += b"/d"
        os.mkdir(folder)  # noqa: PTH102
    put(tmp_path, folder[len(os.fsencode(tmp_path)) + 1 :] + b"/a.jpg")
    found = paths(tmp_path)
    os.unlink(folder + b"/a.jpg")  # noqa: PTH108
    os.removedirs(folder)  # here, because shutil.rmtree recurses
    assert [len(path) for path in found] == [2 * depth + len("a.jpg")]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that a user without privileges can enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_an_unreadable_folder_is_reported_and_the_rest_is_walked(open_folder: Path) -> None:
    put(open_folder, "a/x.jpg", "locked/y.jpg", "z.jpg")
    (open_folder / "locked").chmod(0)
    reported: list[tuple[bytes, type[OSError]]] = []
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        stamps = find_photos(open_folder, on_unreadable=lambda path, error: reported.append((path, type(error))))
        found = [stamp.path for stamp in stamps]
    finally:
        os.seteuid(user)
        (open_folder / "locked").chmod(0o755)
    assert found == [b"a/x.jpg", b"z.jpg"]
    assert reported == [(b"locked", PermissionError)]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("x")])
def test_a_root_that_is_no_folder_is_an_error_at_once(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "root")
    with pytest.raises(NoPhotos, match="root"):
        find_photos(tmp_path / "root")


def test_an_empty_folder_gives_nothing(tmp_path: Path) -> None:
    assert paths(tmp_path) == []


names = st.sampled_from(["a", "a.jpg", "b", "a-", "a0", "B.png", "x.txt", "é.jpg"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(names, min_size=1, max_size=4), max_size=12))
def test_every_photo_is_given_once_in_byte_order(trees: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        expected = set()
        for parts in trees:
            path = root.joinpath(*parts)
            if any(parent.is_file() for parent in path.parents) or path.is_dir():
                continue
            put(root, str(path.relative_to(root)))
            if path.suffix in (".jpg", ".png"):
                expected.add(os.fsencode(path.relative_to(root)))
        assert paths(root) == sorted(expected)
