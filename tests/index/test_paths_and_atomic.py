from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch_index.atomic import atomic_path, atomic_write, remove_partials
from mocosearch_index.errors import NotWritable
from mocosearch_index.paths import is_reachable, printable


@given(st.binary(max_size=255))
def test_any_path_prints_as_one_line_of_printable_characters(path: bytes) -> None:
    assert printable(path).isprintable()


@given(st.lists(st.binary(max_size=30), unique=True, min_size=2, max_size=2))
def test_different_paths_look_different(paths: list[bytes]) -> None:
    assert printable(paths[0]) != printable(paths[1])


def test_ordinary_names_stay_as_they_are() -> None:
    assert printable("Älbum 2021/日本 😀.jpg".encode()) == "Älbum 2021/日本 😀.jpg"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"a\nb.jpg", "a\\nb.jpg"),
        (b"\x1b[2J.jpg", "\\x1b[2J.jpg"),
        (b"caf\xe9.jpg", "caf\\xe9.jpg"),
        ("gpj\u202e.exe".encode(), "gpj\\u202e.exe"),
        (b"back\\slash", "back\\\\slash"),
        ("\x9b".encode(), "\\u009b"),
    ],
)
def test_dangerous_names_are_escaped(path: bytes, shown: str) -> None:
    assert printable(path) == shown


def test_a_file_is_replaced_whole_and_nothing_else_stays_behind(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    atomic_write(target, b"new")
    assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def write_half(target: Path) -> None:
    with atomic_path(target) as partial:
        partial.write_bytes(b"half")
        raise RuntimeError


def test_an_error_while_writing_keeps_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(RuntimeError):
        write_half(target)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["x" * 300, "file/below", "folder"])
def test_a_name_under_which_nothing_can_be_written_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotWritable, match="choose another name") as caught:
        atomic_write(tmp_path / name, b"new")
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_only_what_can_be_a_path_is_reachable(tmp_path: Path) -> None:
    assert is_reachable(tmp_path)
    assert not any(is_reachable(tmp_path / name) for name in ("nothing", "x" * 300, "x/" * 5000, "nul\0byte"))


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "file") as partial:
        partial.write_bytes(b"whole")
    partial.write_bytes(b"half")
    remove_partials(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
