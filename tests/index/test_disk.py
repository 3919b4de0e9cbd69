"""A full disk, and folders in which nothing can be written: real ones, on small file systems in memory."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from generated_photos import ENCODER, assert_stored, batch, photo

from mocosearch_index.atomic import atomic_path, atomic_write
from mocosearch_index.errors import DiskFull, NotReadable, NotWritable
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.vector_exports import write_npy


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here (needs root): {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An empty file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk))
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Write a file that leaves `leave` bytes free."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(disk).free - leave))
    return ballast


@pytest.mark.parametrize("leave", [0, 4096, 8192, 16384, 65536, 200_000])
def test_a_full_disk_keeps_what_was_committed_and_goes_on_when_there_is_space(small_disk: Path, leave: int) -> None:
    folder = small_disk / ".mocosearch"
    with ImageIndex.create(folder, root=small_disk, encoder=ENCODER) as index:
        index.commit(batch(0, 20))
    ballast = fill(small_disk, leave)
    stored = {photo.stamp.path: 0 for photo in batch(0, 20)}
    with pytest.raises(DiskFull, match="free some space"):
        write_until_full(folder, stored)
    with ImageIndex.open(folder) as reader:  # the disk is still full
        assert_stored(reader, stored)
        assert reader.verify() == []
    ballast.unlink()
    with ImageIndex.open(folder, writable=True) as index:
        assert_stored(index, stored)
        index.commit([photo(b"after.jpg")])
        index.save_search_file()
        assert_stored(index, stored | {b"after.jpg": 0})
        assert index.verify() == []


def write_until_full(folder: Path, stored: dict[bytes, int]) -> None:
    """Commit until the disk is full; `stored` tells what was."""
    with ImageIndex.open(folder, writable=True) as index:
        for number in range(1, 1000):
            index.commit(batch(number, 25))
            stored.update({photo.stamp.path: 0 for photo in batch(number, 25)})


def test_the_same_writer_can_go_on_after_a_full_disk(small_disk: Path) -> None:
    with ImageIndex.create(small_disk / "index", root=small_disk, encoder=ENCODER) as index:
        index.commit(batch(0, 20))
        ballast = fill(small_disk, 30_000)
        with pytest.raises(DiskFull):
            index.commit(batch(1, 3000))
        ballast.unlink()
        index.commit(batch(2, 20))
        assert_stored(index, {photo.stamp.path: 0 for number in (0, 2) for photo in batch(number, 20)})
        assert index.verify() == []


def test_no_space_for_the_search_file_costs_nothing_else(small_disk: Path) -> None:
    with ImageIndex.create(small_disk / "index", root=small_disk, encoder=ENCODER) as index:
        index.commit(batch(0, 2000))
        fill(small_disk, 20_000)
        with pytest.raises(DiskFull):
            index.save_search_file()
        assert not list(index.folder.glob("*.faiss")) + list(index.folder.glob(".*.partial"))
        assert_stored(index, {photo.stamp.path: 0 for photo in batch(0, 2000)})


@pytest.mark.parametrize("leave", [0, 10_000, 30_000, 60_000])
def test_no_space_to_compact_costs_nothing_else(small_disk: Path, leave: int) -> None:
    with ImageIndex.create(small_disk / "index", root=small_disk, encoder=ENCODER) as index:
        index.commit(batch(0, 400))
        index.commit(missing=range(1, 101))
        stored = {found.stamp.path: 0 for found in batch(0, 400)[100:]}
        ballast = fill(small_disk, leave)
        with pytest.raises(DiskFull, match="free some space"):
            index.compact()
        assert_stored(index, stored)
        assert len(list(index.folder.glob("vectors-*"))) == 1
        with ImageIndex.open(index.folder) as reader:
            assert_stored(reader, stored)
            assert reader.verify() == []
        ballast.unlink()
        index.commit([photo(b"new.jpg")], missing=[101])
        index.compact()
        del stored[b"0/100.jpg"]
        assert_stored(index, stored | {b"new.jpg": 0})
        assert index.verify() == []


def test_no_space_for_a_new_index_leaves_none(small_disk: Path) -> None:
    fill(small_disk, 8192)
    with pytest.raises(DiskFull):
        ImageIndex.create(small_disk / "index", root=small_disk, encoder=ENCODER)
    assert not (small_disk / "index" / "catalog.sqlite").exists()


def test_atomic_write_on_a_full_disk_keeps_the_old_content(small_disk: Path) -> None:
    target = small_disk / "file"
    target.write_bytes(b"old")
    fill(small_disk, 4096)
    with pytest.raises(DiskFull):
        atomic_write(target, bytes(100_000))
    assert target.read_bytes() == b"old"
    assert sorted(path.name for path in small_disk.iterdir()) == ["ballast", "file"]


def test_vectors_for_which_there_is_no_space_are_not_exported(small_disk: Path) -> None:
    vectors = np.ones((20_000, 32), np.float16)
    with pytest.raises(DiskFull):
        write_npy(small_disk / "vectors.npy", vectors)
    assert list(small_disk.iterdir()) == []
    write_npy(small_disk / "vectors.npy", vectors[:5000])
    assert np.allclose(np.load(small_disk / "vectors.npy"), np.full((5000, 32), 32**-0.5, np.float32))


def test_a_full_disk_is_named_though_the_writer_calls_it_something_else(small_disk: Path) -> None:
    def write(target: Path, size: int) -> None:
        with atomic_path(target) as partial:
            try:
                partial.write_bytes(bytes(size))
            except OSError:
                raise RuntimeError("something went wrong") from None
            raise ValueError("another mistake")

    with pytest.raises(DiskFull):
        write(small_disk / "file", 2_000_000)
    assert list(small_disk.iterdir()) == []
    with pytest.raises(ValueError, match="another mistake"):
        write(small_disk.parent / "file", 2_000_000)


@pytest.mark.parametrize("killed", [False, True])
def test_an_index_in_a_read_only_folder_can_be_read(small_disk: Path, tmp_path: Path, killed: bool) -> None:
    folder = small_disk / ".mocosearch"
    index = ImageIndex.create(folder, root=small_disk, encoder=ENCODER)
    index.commit(batch(0, 5))
    index.commit(batch(1, 5))
    if killed:  # the last commits are in the log only, and the file that is shared by readers and writers is gone
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm"))
        index.close()
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        assert (folder / "catalog.sqlite-wal").stat().st_size > 0
    index.close()
    mount("-o", "remount,ro", str(small_disk))
    with ImageIndex.open(folder) as reader:
        assert_stored(reader, {photo.stamp.path: 0 for number in (0, 1) for photo in batch(number, 5)})
        assert reader.verify() == []
        assert not reader.refresh()
        # Another machine may write to what is read-only here.
        mount("-o", "remount,rw", str(small_disk))
        with ImageIndex.open(folder, writable=True) as writer:
            writer.commit(batch(2, 5))
        mount("-o", "remount,ro", str(small_disk))
        assert reader.refresh()
        assert_stored(reader, {photo.stamp.path: 0 for number in (0, 1, 2) for photo in batch(number, 5)})
    with pytest.raises(NotWritable, match="choose another folder"):
        ImageIndex.open(folder, writable=True)
    with pytest.raises(NotWritable):
        ImageIndex.create(small_disk / "new", root=small_disk, encoder=ENCODER)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Permissions mean nothing to root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_files_that_may_not_be_read_are_named_and_a_search_file_is_made_anew() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name) / "index"
        with ImageIndex.create(folder, root=Path(name), encoder=ENCODER) as index:
            index.commit(batch(0, 20))
            index.save_search_file()
        Path(name).chmod(0o755)
        folder.chmod(0o755)
        for file in ("catalog.sqlite", "vectors-000001.f16"):
            (folder / file).chmod(0)
            with unprivileged(), pytest.raises(NotReadable, match=f"{file}': change its permissions"):
                ImageIndex.open(folder)
            (folder / file).chmod(0o644)
        (folder / "search-000001.faiss").chmod(0)
        with unprivileged(), ImageIndex.open(folder) as reader:
            assert_stored(reader, {photo.stamp.path: 0 for photo in batch(0, 20)})
            assert reader.verify() == []


def test_odd_names_on_the_way_to_the_index_do_no_harm(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"caf\xe9\n#100%?x=1") / ("x" * 255)
    root.mkdir(parents=True)
    with ImageIndex.create(root / ".mocosearch", root=root, encoder=ENCODER) as index:
        odd = [b"\xff\xfe.jpg", b"new\nline.jpg", b"x" * 255, b"a" * 255 + b"/" + b"b" * 255]
        index.commit([photo(path) for path in odd])
        assert_stored(index, dict.fromkeys(odd, 0))
    with ImageIndex.open(root / ".mocosearch") as reader:
        assert reader.root == root
        assert_stored(reader, dict.fromkeys(odd, 0))
