"""Disks that are full or read-only."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mocosearch.encoders import Encoder
from mocosearch.library import Library, Progress
from mocosearch.update import work as update_work
from mocosearch_index.errors import (
    DiskFull,
    NotWritable,
)
from tests.library.six_photos import best_match, indexed


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a file system in memory with these options."""
    disk = tmp_path / "disk"

    def mount(options: str) -> Path:
        disk.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot mount here (needs root): {done.stderr.strip()}")
        return disk

    yield mount
    subprocess.run(["umount", "-l", str(disk)], check=False, capture_output=True)


def test_a_disk_that_fills_up_keeps_what_was_committed(
    root: Path, encoder: Encoder, mounted: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_work, "COMMIT_SECONDS", 0.0)
    disk = mounted("size=64m")
    ballast = disk / "ballast"

    def fill(progress: Progress) -> None:
        if progress.done == 3:
            ballast.write_bytes(bytes(shutil.disk_usage(disk).free))

    with Library.create(root, encoder, disk / "index") as library, pytest.raises(DiskFull, match="free some space"):
        library.update(fill)
    with Library.open(root, disk / "index") as library:
        kept = len(indexed(library))
        assert kept >= 3
        assert library.index.verify() == []
    ballast.unlink()
    with Library.open(root, disk / "index", writable=True) as library:
        assert library.update().embedded == 6 - kept
        assert len(indexed(library)) == 6


def test_no_space_for_the_encoder_leaves_no_index(root: Path, encoder: Encoder, mounted: Callable[[str], Path]) -> None:
    disk = mounted("size=20m")
    with pytest.raises(DiskFull):
        Library.create(root, encoder, disk / "index")
    assert list(disk.iterdir()) == []


def test_a_read_only_folder_gets_its_index_elsewhere(
    root: Path, encoder: Encoder, mounted: Callable[[str], Path], tmp_path: Path
) -> None:
    disk = mounted("size=2m")
    shutil.copytree(root, disk / "photos")
    mounted("remount,ro")
    with pytest.raises(NotWritable, match="--index-dir"):
        Library.create(disk / "photos", encoder)
    with Library.create(disk / "photos", encoder, tmp_path / "index") as library:
        assert library.update().embedded == 6
        assert best_match(library, b"1.jpg") == b"1.jpg"
