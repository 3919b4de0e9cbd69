"""The folder of an index: opened, read, moved, made anew, discarded, counted."""

import os
import shutil
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from generated_photos import CAT, DIM, DOG, ENCODER, assert_stored, photo

from mocosearch_index.errors import EncoderMismatch, IndexExists, NotAnIndex
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import (
    EncoderIdentity,
)


def test_a_reader_cannot_write(folder: Path, index: ImageIndex) -> None:
    with ImageIndex.open(folder) as reader, pytest.raises(ValueError, match="reading"):
        reader.commit([photo(CAT)])


def test_no_index_and_a_second_index_are_errors(tmp_path: Path, folder: Path, index: ImageIndex) -> None:
    with pytest.raises(NotAnIndex, match="mocosearch index"):
        ImageIndex.open(tmp_path)
    index.close()
    with pytest.raises(IndexExists):
        ImageIndex.create(folder, root=tmp_path, encoder=ENCODER)


def test_a_file_of_something_else_is_not_an_index(folder: Path) -> None:
    folder.mkdir()
    (folder / "catalog.sqlite").write_bytes(b"")
    with pytest.raises(NotAnIndex):
        ImageIndex.open(folder)


def test_nobody_else_can_look_into_the_folder(folder: Path, index: ImageIndex) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_library_with_the_index_inside_can_be_moved(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with ImageIndex.create(old / ".mocosearch", root=old, encoder=ENCODER) as index:
        index.commit([photo(CAT)])
    old.rename(new)
    with ImageIndex.open(new / ".mocosearch") as index:
        assert index.root == new
        assert_stored(index, {CAT: 0})


def test_an_index_elsewhere_remembers_its_root(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"ph\xf6tos\n")
    root.mkdir()
    with ImageIndex.create(tmp_path / "a" / "b", root=root, encoder=ENCODER):
        pass
    (tmp_path / "a").rename(tmp_path / "c")
    with ImageIndex.open(tmp_path / "c" / "b") as index:
        assert index.root == root


def test_an_index_made_anew_is_picked_up_unless_its_encoder_differs(folder: Path, index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    index.close()
    reader = ImageIndex.open(folder)
    assert_stored(reader, {CAT: 0})

    def make_anew(encoder: EncoderIdentity) -> None:
        for path in folder.iterdir():
            path.unlink()
        with ImageIndex.create(folder, root=folder.parent, encoder=encoder) as again:
            again.commit([photo(DOG)])

    make_anew(ENCODER)
    assert reader.refresh()
    assert_stored(reader, {DOG: 0})
    make_anew(EncoderIdentity("f" * 16, DIM, "another"))
    with pytest.raises(EncoderMismatch, match="0123456789abcdef before, ffffffffffffffff now"):
        reader.refresh()
    reader.close()


def test_a_discarded_index_leaves_nothing_of_its_own(folder: Path, index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    index.save_search_file()
    (folder / "notes.txt").write_text("mine")
    index.discard()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    ImageIndex.create(folder, root=folder.parent, encoder=ENCODER).discard()
    assert not folder.exists()


def test_the_search_file_is_written_only_when_something_changed(folder: Path, index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    index.save_search_file()
    [path] = folder.glob("*.faiss")
    written = path.stat().st_ino
    index.save_search_file()
    assert path.stat().st_ino == written
    index.commit([photo(DOG)])
    assert not path.exists()
    index.save_search_file()
    assert path.exists()


def test_the_size_on_disk_counts_every_file(folder: Path, index: ImageIndex) -> None:
    before = index.size_on_disk()
    (folder / "encoder").mkdir()
    (folder / "encoder" / "weights").write_bytes(b"x" * 12345)
    assert index.size_on_disk() == before + 12345


def test_the_size_on_disk_can_be_told_while_files_come_and_go(folder: Path, index: ImageIndex) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            (folder / "thumbnails").mkdir()
            for number in range(20):
                (folder / "thumbnails" / str(number)).touch()
            shutil.rmtree(folder / "thumbnails")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            sizes = {index.size_on_disk() for _ in range(500)}
        finally:
            stop.set()
        writing.result(timeout=60)
    assert sizes == {index.size_on_disk()}
