"""One writer at a time; readers in threads and other processes see whole commits and pick up new ones."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import killed_writer
import numpy as np
import pytest
from generated_photos import ENCODER, assert_stored, batch, photo, vector
from killed_writer import do

from mocosearch_index.errors import IndexLocked
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.shared_lock import SharedLock

WRITER = Path(__file__).with_name("generated_photos.py")


def test_a_second_writer_is_turned_away_and_readers_are_not(folder: Path, index: ImageIndex) -> None:
    with pytest.raises(IndexLocked, match="wait until it has finished"):
        ImageIndex.open(folder, writable=True)
    with pytest.raises(IndexLocked):
        ImageIndex.create(folder, root=folder.parent, encoder=ENCODER)
    index.commit([photo(b"a.jpg")])
    with ImageIndex.open(folder) as reader:
        assert_stored(reader, {b"a.jpg": 0})
    index.close()
    with ImageIndex.open(folder, writable=True) as second:
        second.commit([photo(b"b.jpg")])


def test_a_writer_in_another_process_is_seen_too(folder: Path, index: ImageIndex) -> None:
    program = (
        "import sys; from pathlib import Path; from mocosearch_index.image_index import ImageIndex\n"
        "ImageIndex.open(Path(sys.argv[1]), writable=True)"
    )
    command = [sys.executable, "-c", program, str(folder)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "IndexLocked" in refused.stderr
    index.close()
    assert subprocess.run(command, check=False).returncode == 0


def test_a_reader_follows_a_writer_of_another_process_commit_by_commit(folder: Path) -> None:
    size = 10
    with ImageIndex.create(folder, root=folder.parent, encoder=ENCODER):
        pass
    command = [sys.executable, str(WRITER), str(folder), "0", str(size)]
    with ImageIndex.open(folder) as reader, subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert not reader.refresh()
        changes = [0]
        for _ in range(5):
            last = int(writer.stdout.readline())
            assert reader.refresh() or reader.change > last
            changes.append(reader.change)
            assert reader.counts()["indexed"] % size == 0
            wanted = [photo.vector for photo in batch(last, size)]
            paths = [reader.photo(hits[0][0]).path for hits in reader.search(np.stack(wanted), 1)]
            assert paths == [photo.stamp.path for photo in batch(last, size)]
        writer.kill()
        assert changes == sorted(changes)


def test_a_reader_is_right_while_another_process_changes_and_compacts_the_index(folder: Path) -> None:
    with ImageIndex.create(folder, root=folder.parent, encoder=ENCODER) as index:
        do(index, 1)
    steady = b"1/1.jpg"  # no step changes it
    command = [sys.executable, str(Path(killed_writer.__file__)), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
        process = int(writer.stdout.readline())
        generations = set()
        with ImageIndex.open(folder) as reader:
            steady_id = reader.known()[steady].id
            while len(generations) < 12:
                writer.stdout.readline()
                assert np.abs(reader.vectors([steady_id])[0] - vector(steady)).max() < 1e-3
                [[(nearest, _)]] = reader.search(vector(steady)[None], 1)
                assert nearest == steady_id
                ids, _ = reader.all_vectors()
                assert steady_id in ids
                assert reader.verify() == []
                generations.add(reader._open.library.generation)
        os.kill(process, signal.SIGKILL)
        assert "end\n" in iter(writer.stdout.readline, "")
        writer.stdin.close()


def test_without_refresh_a_search_stays_as_it_was(folder: Path, index: ImageIndex) -> None:
    index.commit([photo(b"a.jpg")])
    with ImageIndex.open(folder) as reader:
        query = vector(b"b.jpg")[None]
        before = reader.search(query, 5)
        index.commit([photo(b"b.jpg")])
        assert reader.search(query, 5) == before
        assert reader.refresh()
        assert not reader.refresh()
        assert len(reader.search(query, 5)[0]) == 2


def test_searches_from_many_threads_while_another_refreshes_are_all_right(folder: Path, index: ImageIndex) -> None:
    index.commit(batch(0, 200))
    paths = [found.stamp.path for found in batch(0, 200)]
    stop = threading.Event()
    with ImageIndex.open(folder) as reader, ThreadPoolExecutor(8) as pool:

        def look(start: int) -> int:
            searches = 0
            while not stop.is_set():
                path = paths[(start + searches) % len(paths)]
                [hits] = reader.search(vector(path)[None], 3)
                assert reader.photo(hits[0][0]).path == path
                assert len(hits) == 3
                searches += 1
            return searches

        looking = [pool.submit(look, start) for start in range(0, 160, 20)]
        for number in range(1, 15):
            index.commit(batch(number, 20))
            assert reader.refresh()
        stop.set()
        assert all(searches.result() > 0 for searches in looking)
        assert reader.search(vector(b"14/3.jpg")[None], 1)[0][0][1] > 0.998


def test_many_threads_may_make_the_first_search_together(folder: Path, index: ImageIndex) -> None:
    index.commit(batch(0, 100))
    start = threading.Barrier(8)
    with ImageIndex.open(folder) as reader, ThreadPoolExecutor(8) as pool:

        def look(number: int) -> bytes:
            start.wait()
            [[(photo_id, _)]] = reader.search(vector(b"0/%d.jpg" % number)[None], 1)
            return reader.photo(photo_id).path

        assert list(pool.map(look, range(8))) == [b"0/%d.jpg" % number for number in range(8)]


def test_the_shared_lock_lets_sharers_together_and_loners_alone() -> None:
    lock = SharedLock()
    together = threading.Barrier(3, timeout=30)
    inside: list[str] = []

    def share() -> None:
        with lock.shared():
            together.wait()  # passes only when all three are inside

    def alone(name: str) -> None:
        with lock.alone():
            inside.append(name)
            assert inside == [name]
            inside.remove(name)

    with ThreadPoolExecutor(6) as pool:
        tasks = [pool.submit(share) for _ in range(3)] + [pool.submit(alone, str(n)) for n in range(30)]
        for task in tasks:
            task.result(timeout=60)


def test_who_waits_to_be_alone_goes_before_new_sharers() -> None:
    lock = SharedLock()
    order: list[str] = []
    waiting, release = threading.Event(), threading.Event()

    def first() -> None:
        with lock.shared():
            waiting.set()
            release.wait(30)
            order.append("first")

    def alone() -> None:
        with lock.alone():
            order.append("alone")

    def late() -> None:
        with lock.shared():
            order.append("late")

    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(first)]
        waiting.wait(30)
        tasks.append(pool.submit(alone))
        while not lock._writers_waiting:
            pass
        tasks.append(pool.submit(late))
        release.set()
        for task in tasks:
            task.result(timeout=60)
    assert order == ["first", "alone", "late"]
