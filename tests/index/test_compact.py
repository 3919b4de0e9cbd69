"""Compaction: what is gone is forgotten, its space comes back, and nobody who reads meanwhile sees a wrong vector."""

import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from generated_photos import DIM, ENCODER, assert_stored, batch, broken, id_of, photo, vector

from mocosearch_index.errors import DamagedIndex, UnknownPhoto
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import IndexSettings

ROW = 2 * DIM + 4
HEADER = 64


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith("catalog")}


@pytest.fixture
def worn(index: ImageIndex) -> ImageIndex:
    """An index of 50 photos: two changed, two missing, a file that cannot be read."""
    index.commit(batch(0, 50), [broken(b"broken.jpg")])
    index.commit([photo(b"0/3.jpg", version=1), photo(b"0/44.jpg", version=1)])
    index.commit(missing=[id_of(index, b"0/0.jpg"), id_of(index, b"0/20.jpg")])
    return index


KEPT = {found.stamp.path: 0 for found in batch(0, 50)} | {b"0/3.jpg": 1, b"0/44.jpg": 1}
del KEPT[b"0/0.jpg"], KEPT[b"0/20.jpg"]


def test_what_is_gone_is_forgotten_and_all_else_stays_as_it_was(folder: Path, worn: ImageIndex) -> None:
    worn.set_settings(IndexSettings(exclude=("*.gif",)))
    worn.save_search_file()
    before = {found.path: found for found in worn.photos() if found.state != "missing"}
    gone = id_of(worn, b"0/0.jpg")
    report = worn.compact()
    assert (report.forgotten, report.rows_dropped) == (2, 4)
    assert {found.path: found for found in worn.photos()} == before
    assert_stored(worn, KEPT)
    assert worn.settings.exclude == ("*.gif",)
    assert worn.verify() == []
    assert names(folder) == {"vectors-000002.f16", "search-000002.faiss", "lock"}
    assert (folder / "vectors-000002.f16").stat().st_size == HEADER + 48 * ROW
    with pytest.raises(UnknownPhoto):
        worn.photo(gone)
    worn.commit([photo(b"0/0.jpg"), photo(b"new.jpg")])
    assert id_of(worn, b"0/0.jpg") > max(found.id for found in before.values())
    worn.close()
    with ImageIndex.open(folder, writable=True) as again:
        assert_stored(again, KEPT | {b"0/0.jpg": 0, b"new.jpg": 0})
        assert again.verify() == []


def test_ids_of_forgotten_photos_are_not_given_again(index: ImageIndex) -> None:
    index.commit(batch(0, 3))
    last = id_of(index, b"0/2.jpg")
    index.commit(missing=[last])
    index.compact()
    index.commit([photo(b"new.jpg")])
    assert id_of(index, b"new.jpg") > last


def test_where_nothing_is_to_be_dropped_the_files_stay(folder: Path, index: ImageIndex) -> None:
    index.commit(batch(0, 5))
    index.save_search_file()
    [search_file] = folder.glob("*.faiss")
    written = search_file.stat().st_ino, search_file.stat().st_mtime_ns
    report = index.compact()
    assert (report.forgotten, report.rows_dropped) == (0, 0)
    assert names(folder) == {"vectors-000001.f16", "search-000001.faiss", "lock"}
    assert (search_file.stat().st_ino, search_file.stat().st_mtime_ns) == written
    assert_stored(index, {found.stamp.path: 0 for found in batch(0, 5)})


def test_all_photos_may_be_gone(index: ImageIndex) -> None:
    index.commit(batch(0, 5))
    index.commit(missing=[1, 2, 3, 4, 5])
    assert index.compact().forgotten == 5
    assert_stored(index, {})
    index.commit([photo(b"a.jpg")])
    assert_stored(index, {b"a.jpg": 0})
    assert index.compact().rows_dropped == 0


def test_the_space_of_what_was_dropped_comes_back(index: ImageIndex) -> None:
    index.commit(batch(0, 3000))
    index.commit(missing=range(1, 2901))
    before = index.size_on_disk()
    report = index.compact()
    assert index.size_on_disk() == before - report.bytes_freed
    assert report.bytes_freed > before / 2


def test_damage_is_not_carried_over_into_a_new_generation(folder: Path, worn: ImageIndex) -> None:
    path = folder / "vectors-000001.f16"
    whole = path.read_bytes()
    path.write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
    with pytest.raises(DamagedIndex):
        worn.compact()
    path.write_bytes(whole)
    assert names(folder) == {"vectors-000001.f16", "lock"}
    assert worn.counts()["missing"] == 2
    connection = worn._open.files.catalog._file.connection
    connection.execute("UPDATE photo SET width = 5 WHERE id = 7")
    with pytest.raises(DamagedIndex, match="mocosearch verify"):
        worn.compact()
    assert names(folder) == {"vectors-000001.f16", "lock"}
    connection.execute("UPDATE photo SET width = 640 WHERE id = 7")
    worn.compact()
    assert_stored(worn, KEPT)


def test_a_reader_never_mixes_two_generations(folder: Path, worn: ImageIndex) -> None:
    with ImageIndex.open(folder) as first, ImageIndex.open(folder) as second, ImageIndex.open(folder) as third:
        for reader in (first, second, third):
            assert_stored(reader, KEPT)
        worn.compact()
        paths = sorted(KEPT)
        wanted = np.stack([vector(path, KEPT[path]) for path in paths])
        assert np.abs(first.vectors([id_of(first, path) for path in paths]) - wanted).max() < 1e-3
        ids, vectors = second.all_vectors()
        for photo_id, stored in zip(ids.tolist(), vectors, strict=True):
            path = second.photo(photo_id).path
            assert stored @ vector(path, KEPT[path]) > 0.998
        assert third.verify() == []
        worn.commit([photo(b"new.jpg")])
        for reader in (first, second, third):
            assert reader.refresh()
            assert_stored(reader, KEPT | {b"new.jpg": 0})


def test_readers_in_many_threads_are_right_while_photos_come_and_go_and_are_compacted(
    folder: Path, index: ImageIndex
) -> None:
    index.commit(batch(0, 60))
    steady = [found.stamp.path for found in batch(0, 60)]
    stop = threading.Event()
    with ImageIndex.open(folder) as reader, ThreadPoolExecutor(5) as pool:
        ids = {path: id_of(reader, path) for path in steady}

        def search(start: int) -> None:
            while not stop.is_set():
                path = steady[start % len(steady)]
                [[(nearest, score)]] = reader.search(vector(path)[None], 1)
                assert (nearest, score > 0.998) == (ids[path], True)
                start += 7

        def read() -> None:
            while not stop.is_set():
                stored = reader.vectors(list(ids.values()))
                assert np.abs(stored - np.stack([vector(path) for path in steady])).max() < 1e-3

        def check() -> None:
            while not stop.is_set():
                assert reader.verify() == []
                assert {found.path for found in reader.photos("indexed")} >= set(steady)
                with ImageIndex.open(folder) as other:
                    assert other.vectors([ids[steady[0]]]).shape == (1, DIM)

        looking = [pool.submit(search, 0), pool.submit(search, 31), pool.submit(read), pool.submit(check)]
        for number in range(1, 16):
            index.commit(batch(number, 10))
            index.commit(missing=[id_of(index, found.stamp.path) for found in batch(number, 10)])
            index.commit(moved=[(photo_id, photo(path).stamp) for path, photo_id in ids.items()])
            index.compact()
            reader.refresh()
        stop.set()
        for task in looking:
            task.result(timeout=60)


def test_what_a_killed_compaction_left_is_removed_by_the_next_writer(folder: Path, worn: ImageIndex) -> None:
    worn.close()
    (folder / "vectors-000002.f16").write_bytes(b"half a vector file")
    with ImageIndex.open(folder) as reader:
        assert_stored(reader, KEPT)
    assert "vectors-000002.f16" in names(folder)
    with ImageIndex.open(folder, writable=True) as index:
        assert names(folder) == {"vectors-000001.f16", "lock"}
        index.compact()
        (folder / "vectors-000001.f16").write_bytes(b"killed before it was removed")
    with ImageIndex.open(folder, writable=True) as index:
        assert names(folder) == {"vectors-000002.f16", "search-000002.faiss", "lock"}
        assert_stored(index, KEPT)


class Interrupted:
    """A connection during whose first commit of a change Ctrl-C is pressed: it is raised before or behind it."""

    def __init__(self, connection: sqlite3.Connection, *, behind: bool) -> None:
        self.connection = connection
        self.behind = behind
        self.changing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        self.changing |= statement == "BEGIN IMMEDIATE"
        if not self.changing or statement != "COMMIT":
            return self.connection.execute(statement, values)
        if self.behind:
            self.connection.execute(statement)
        self.changing = False
        raise KeyboardInterrupt


@pytest.mark.parametrize("behind", [False, True])
def test_ctrl_c_at_the_moment_of_the_commit_leaves_the_vectors_that_the_catalog_names(
    folder: Path, worn: ImageIndex, behind: bool
) -> None:
    file = worn._open.files.catalog._file
    file.connection = cast("sqlite3.Connection", Interrupted(file.connection, behind=behind))
    with pytest.raises(KeyboardInterrupt):
        worn.compact()
    worn.close()
    assert (folder / "vectors-000002.f16").exists() == behind
    with ImageIndex.open(folder, writable=True) as again:
        assert_stored(again, KEPT)
        assert again.counts()["missing"] == (0 if behind else 2)
        assert again.verify() == []


def test_a_reader_cannot_compact_nor_repair(folder: Path, worn: ImageIndex) -> None:
    with ImageIndex.open(folder) as reader:
        with pytest.raises(ValueError, match="reading"):
            reader.compact()
        with pytest.raises(ValueError, match="reading"):
            reader.verify(repair=True)


def test_a_new_index_is_compact(tmp_path: Path) -> None:
    with ImageIndex.create(tmp_path / "index", root=tmp_path, encoder=ENCODER) as index:
        assert (index.compact().forgotten, index.verify(repair=True)) == (0, [])
