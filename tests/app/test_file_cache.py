import os
import stat
import time
from pathlib import Path

import pytest

from mocosearch_app.service.pictures.file_cache import FOLDERS, FileCache

NAMES = [f"ab{number:030x}" for number in range(10)]  # all in one of the folders
TEN_FILES = 1000 * 10 * FOLDERS  # a limit that leaves a folder room for ten files of 1,000 bytes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def use_before(folder: Path, name: str, seconds: float) -> None:
    """Let a file have been used last so long ago."""
    os.utime(folder / name[:2] / f"{name}.webp", (time.time() - seconds,) * 2)


def test_what_was_written_is_read_also_by_the_next_process(folder: Path) -> None:
    assert FileCache(folder).read(NAMES[0]) is None
    FileCache(folder).write(NAMES[0], b"one")
    FileCache(folder).write(NAMES[1], b"two")
    FileCache(folder).write(NAMES[0], b"three")
    assert [FileCache(folder).read(name) for name in NAMES[:3]] == [b"three", b"two", None]


def test_files_lie_in_private_folders_by_the_first_two_digits(folder: Path) -> None:
    FileCache(folder).write("0f" + "0" * 30, b"data")
    FileCache(folder).write("f0" + "0" * 30, b"data")
    assert sorted(path.name for path in folder.iterdir()) == ["0f", "f0"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o700}


def test_those_used_longest_ago_make_room_for_the_new_one(folder: Path) -> None:
    cache = FileCache(folder, TEN_FILES)
    for number, name in enumerate(NAMES):
        cache.write(name, bytes(1000))
        use_before(folder, name, 1000 * (10 - number))
    assert all(map(cache.read, NAMES))
    cache.write("ab" + "f" * 30, bytes(1500))
    assert [cache.read(name) is not None for name in NAMES] == [False] * 2 + [True] * 8
    assert cache.read("ab" + "f" * 30) == bytes(1500)


def test_a_full_folder_takes_nothing_from_another(folder: Path) -> None:
    cache = FileCache(folder, TEN_FILES)
    cache.write("cd" + "0" * 30, b"another")
    use_before(folder, "cd" + "0" * 30, 10**6)
    for number in range(30):
        cache.write(f"ab{number:030x}", bytes(1000))
    assert len(list((folder / "ab").iterdir())) == 10
    assert cache.read("cd" + "0" * 30) == b"another"


def test_a_file_that_is_used_outlives_those_that_are_not(folder: Path) -> None:
    cache = FileCache(folder, TEN_FILES)
    for name in NAMES:
        cache.write(name, bytes(1000))
        use_before(folder, name, 3 * 86_400)
    use_before(folder, NAMES[0], 5 * 86_400)
    cache.read(NAMES[0])
    for number in range(9):
        cache.write(f"ab{number + 100:030x}", bytes(1000))
    assert cache.read(NAMES[0]) == bytes(1000)
    assert not any(map(cache.read, NAMES[1:]))


def test_reading_again_on_the_same_day_writes_nothing(folder: Path) -> None:
    cache = FileCache(folder)
    cache.write(NAMES[0], b"data")
    use_before(folder, NAMES[0], 3600)
    [path] = (folder / "ab").iterdir()
    before = path.stat().st_mtime_ns
    cache.read(NAMES[0])
    assert path.stat().st_mtime_ns == before


def test_what_a_killed_process_left_goes_and_what_another_is_writing_stays(folder: Path) -> None:
    (folder / "ab").mkdir()
    stale, fresh = folder / "ab" / ".x.webp.00.partial", folder / "ab" / ".y.webp.00.partial"
    for path in (stale, fresh, folder / ".key.00.partial"):
        path.write_bytes(bytes(100_000))
    for path in (stale, folder / ".key.00.partial"):
        os.utime(path, (0, 0))
    FileCache(folder, TEN_FILES).write(NAMES[0], b"data")
    assert sorted(path.name for path in folder.iterdir()) == ["ab"]
    assert sorted(path.name for path in (folder / "ab").iterdir()) == [fresh.name, f"{NAMES[0]}.webp"]


def test_files_that_lay_in_one_folder_go_and_all_else_there_stays(folder: Path) -> None:
    (folder / "key").write_bytes(b"secret")
    (folder / f"{NAMES[0]}.webp").write_bytes(b"of an earlier version")
    FileCache(folder)
    assert [path.name for path in folder.iterdir()] == ["key"]


def test_a_cache_deleted_while_it_is_in_use_fills_again(folder: Path) -> None:
    cache = FileCache(folder / "cache")
    (folder / "cache").mkdir()
    (folder / "cache").rmdir()
    cache.write(NAMES[0], b"data")
    assert cache.read(NAMES[0]) == b"data"


def test_where_nothing_can_be_written_or_read_nothing_is_kept(folder: Path) -> None:
    (folder / "ab").write_text("a file where a folder should be")
    (folder / "cd").mkdir()
    (folder / "cd" / f"cd{'0' * 30}.webp").mkdir()
    cache = FileCache(folder)
    for name in (NAMES[0], "cd" + "0" * 30):
        cache.write(name, b"data")
        assert cache.read(name) is None
