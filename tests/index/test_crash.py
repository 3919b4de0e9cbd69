"""A killed writer, and lost power as a file cut back to an earlier length: what was committed is there."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from generated_photos import ENCODER, assert_stored, batch, photo
from killed_writer import do, stored_after

from mocosearch_index.compaction import start_generation
from mocosearch_index.errors import DamagedIndex
from mocosearch_index.image_index import ImageIndex

WRITER = Path(__file__).with_name("killed_writer.py")
VECTORS = "vectors-000001.f16"


def kill(writer: subprocess.Popen[str], after: float, steps: int) -> int:
    """Let `writer` start a process, kill it `after` seconds after its `steps`-th step; return the last it told."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()
    process = int(writer.stdout.readline())
    said = [int(writer.stdout.readline()) for _ in range(steps)]
    time.sleep(after)
    os.kill(process, signal.SIGKILL)
    said += [int(line) for line in iter(writer.stdout.readline, "end\n")]
    return said[-1]


def test_a_writer_killed_fifty_times_loses_at_most_the_step_it_was_in(folder: Path) -> None:
    with ImageIndex.create(folder, root=folder.parent, encoder=ENCODER):
        pass
    moments = random.Random(1)
    command = [sys.executable, str(WRITER), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(50):
            last = kill(writer, after=moments.uniform(0, 0.02), steps=moments.randint(1, 4))
            with ImageIndex.open(folder) as reader:
                step = reader.change
                # It was killed before, in or after the step behind the last one it spoke of.
                assert step in (last, last + 1)
                assert reader.verify() == []
                assert_stored(reader, stored_after(step))
        assert writer.stdin is not None
        writer.stdin.close()
    with ImageIndex.open(folder, writable=True) as index:
        assert index.change == step
        assert index.verify() == []
        assert_stored(index, stored_after(step))
        assert len(list(folder.glob("vectors-*"))) == 1
        assert not list(folder.glob(".*"))
        do(index, step + 1)
        assert_stored(index, stored_after(step + 1))


@pytest.fixture
def history(folder: Path, index: ImageIndex, tmp_path: Path) -> list[Path]:
    """Copies of the folder as it was after 0, 1, ..., 5 commits of 7 photos, the writer still at work."""
    copies = []
    for number in range(6):
        if number:
            index.commit(batch(number, 7))
        copies.append(tmp_path / f"after-{number}")
        shutil.copytree(folder, copies[-1])
    return copies


def versions_after(commits: int) -> dict[bytes, int]:
    return {photo.stamp.path: 0 for number in range(1, commits + 1) for photo in batch(number, 7)}


def test_power_lost_while_the_log_was_written_leaves_a_whole_number_of_commits(history: list[Path]) -> None:
    last = history[-1]
    log, vectors = last / "catalog.sqlite-wal", last / VECTORS
    whole = log.read_bytes()
    lengths = [(copy / log.name).stat().st_size for copy in history]
    rows = vectors.read_bytes()
    for length in random.Random(2).sample(range(len(whole)), 40) + lengths:
        log.write_bytes(whole[:length])
        vectors.write_bytes(rows)
        (last / "catalog.sqlite-shm").unlink(missing_ok=True)
        commits = max(number for number, size in enumerate(lengths) if size <= length) if length >= lengths[0] else 0
        with ImageIndex.open(last) as reader:
            assert_stored(reader, versions_after(commits))
        with ImageIndex.open(last, writable=True) as index:
            assert_stored(index, versions_after(commits))
            assert index.verify() == []
            index.commit([photo(b"later.jpg", version=length)])
            assert_stored(index, versions_after(commits) | {b"later.jpg": length})
        shutil.copy(history[-1].parent / "after-0" / "catalog.sqlite", last)


def test_power_lost_while_a_compaction_was_written_leaves_the_one_generation_or_the_other(
    folder: Path, index: ImageIndex, tmp_path: Path
) -> None:
    for step in (1, 2, 3):
        do(index, step)
    log = folder / "catalog.sqlite-wal"
    before = log.stat().st_size
    start_generation(folder, index._open.files)  # all of it but removing what is old
    whole = log.read_bytes()
    generations = set()
    for length in [*random.Random(3).sample(range(before, len(whole)), 30), before, len(whole)]:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm", "lock"))
        (copy / log.name).write_bytes(whole[:length])
        with ImageIndex.open(copy) as reader:
            assert_stored(reader, stored_after(3))
        with ImageIndex.open(copy, writable=True) as again:
            [vectors] = copy.glob("vectors-*")
            generations.add(vectors.name)
            assert again.counts()["missing"] == (18 if vectors.name == VECTORS else 0)
            assert_stored(again, stored_after(3))
            assert again.verify() == []
            again.compact()
            assert_stored(again, stored_after(4))
        shutil.rmtree(copy)
    assert generations == {"vectors-000001.f16", "vectors-000002.f16"}


def test_a_torn_end_of_the_vector_file_is_cut_off(history: list[Path]) -> None:
    vectors = history[2] / VECTORS
    committed = vectors.read_bytes()
    torn = (history[3] / VECTORS).read_bytes()
    for length in range(len(committed), len(torn), 13):
        vectors.write_bytes(torn[:length])
        with ImageIndex.open(history[2]) as reader:
            assert_stored(reader, versions_after(2))
        with ImageIndex.open(history[2], writable=True) as index:
            assert vectors.read_bytes() == committed
            assert index.verify() == []


def test_a_vector_file_shorter_than_what_was_committed_is_damage(history: list[Path]) -> None:
    vectors = history[-1] / VECTORS
    whole = vectors.read_bytes()
    for length in [*range(0, 80, 9), *range(80, len(whole), 101), len(whole) - 1]:
        vectors.write_bytes(whole[:length])
        for writable in (False, True):
            with pytest.raises(DamagedIndex, match="mocosearch verify"):
                ImageIndex.open(history[-1], writable=writable)
        assert vectors.stat().st_size == length  # nothing was made worse
    vectors.unlink()
    with pytest.raises(DamagedIndex, match="missing"):
        ImageIndex.open(history[-1])


def test_what_a_kill_left_of_a_creation_is_no_hindrance(folder: Path) -> None:
    folder.mkdir()
    (folder / VECTORS).write_bytes(b"half a header")
    (folder / ".catalog.sqlite.0a1b2c3d.partial").write_bytes(b"half a catalog")
    with ImageIndex.create(folder, root=folder.parent, encoder=ENCODER) as index:
        index.commit(batch(1, 7))
        assert_stored(index, versions_after(1))
    assert not list(folder.glob(".*.partial"))


def test_a_search_file_of_commits_that_lost_power_took_back_is_not_believed(folder: Path, tmp_path: Path) -> None:
    with ImageIndex.create(folder, root=tmp_path, encoder=ENCODER) as index:
        index.commit(batch(1, 7))
    shutil.copytree(folder, tmp_path / "before")
    with ImageIndex.open(folder, writable=True) as index:
        index.commit(batch(2, 7))
        index.save_search_file()
    for path in (tmp_path / "before").iterdir():
        shutil.copy(path, folder)
    with ImageIndex.open(folder) as reader:
        assert_stored(reader, versions_after(1))
    with ImageIndex.open(folder, writable=True) as index:
        index.commit(batch(3, 7))  # again the second commit, but another one
    with ImageIndex.open(folder) as reader:
        assert_stored(reader, versions_after(1) | {photo.stamp.path: 0 for photo in batch(3, 7)})
