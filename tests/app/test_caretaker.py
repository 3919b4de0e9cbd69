"""Work behind the page on real libraries: it goes on, can be stopped, ends in words and keeps what it did."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from mocosearch.library import Library
from mocosearch_app.service.care.caretaker import Caretaker, Ended, Running, Task

MANY = 150  # photos: three batches of the encoder


@pytest.fixture
def library(own_library: Path) -> Iterator[Library]:
    with Library.open(own_library) as library:
        yield library


@pytest.fixture
def caretaker(library: Library) -> Iterator[Caretaker]:
    with closing(Caretaker(library)) as caretaker:
        yield caretaker


def ended(caretaker: Caretaker) -> Ended:
    for _ in range(6000):
        state = caretaker.state()
        if isinstance(state, Ended):
            return state
        time.sleep(0.01)
    raise AssertionError(f"never ended: {state}")


def done(caretaker: Caretaker, task: Task) -> Ended:
    assert caretaker.start(task)
    return ended(caretaker)


def indexed(library: Library) -> int:
    return library.index.counts()["indexed"]


def add_photos(folder: Path, count: int) -> None:
    for number in range(count):
        Image.linear_gradient("L").rotate(number).convert("RGB").save(folder / f"added {number:03}.png")


def test_nothing_is_done_before_it_is_asked_for(caretaker: Caretaker) -> None:
    assert caretaker.state() is None
    assert caretaker.found is None


def test_a_rescan_takes_in_new_photos_while_the_library_is_looked_at(caretaker: Caretaker, library: Library) -> None:
    add_photos(library.root, 2)
    update = done(caretaker, "rescan").update
    assert update is not None
    assert (update.embedded, update.stopped) == (2, False)
    added = library.index.photo_at(b"added 000.png")
    assert added is not None
    library.index.refresh()
    assert library.search([added.id], k=1)[0].photo.path == b"added 001.png"
    again = done(caretaker, "rescan").update
    assert again is not None
    assert not again.has_news


def test_a_rescan_never_forgets_a_library_whose_drive_is_off(caretaker: Caretaker, library: Library) -> None:
    before = indexed(library)
    for path in library.root.iterdir():
        if path.name != ".mocosearch":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    update = done(caretaker, "rescan").update
    assert update is not None
    assert update.kept == before == indexed(library)


def test_a_rescan_says_why_it_cannot_work(caretaker: Caretaker, library: Library) -> None:
    with Library.open(library.root, writable=True):
        failure = done(caretaker, "rescan").failure
    assert failure is not None
    assert "wait until it has finished" in failure
    assert done(caretaker, "rescan").failure is None


def test_a_rescan_that_is_stopped_keeps_what_it_did_and_the_next_one_does_the_rest(
    make_library: Callable[[Path], None], tmp_path: Path
) -> None:
    make_library(tmp_path)
    add_photos(tmp_path, MANY)
    with Library.open(tmp_path) as library:
        with closing(Caretaker(library)) as caretaker:
            assert caretaker.start("rescan")
            while not isinstance(caretaker.state(), Ended) and not _is_embedding(caretaker):
                time.sleep(0.001)
        first = ended(caretaker).update
        assert first is not None
        assert 0 < first.embedded == indexed(library)
        with closing(Caretaker(library)) as caretaker:
            second = done(caretaker, "rescan").update
        assert second is not None
        assert first.embedded + second.embedded == indexed(library) == MANY


def _is_embedding(caretaker: Caretaker) -> bool:
    state = caretaker.state()
    return isinstance(state, Running) and state.step == "embedding" and state.done > 0


def test_identical_photos_are_found_and_said_to_be_old_once_the_library_changed(
    caretaker: Caretaker, library: Library
) -> None:
    (library.root / "again.png").write_bytes((library.root / "tall.png").read_bytes())
    done(caretaker, "rescan")
    found = done(caretaker, "find-identical").found
    assert found is not None
    assert caretaker.found is found
    [group] = found.report.groups
    assert {photo.path for photo in (group.keeper, group.copies[0].photo)} == {b"again.png", b"tall.png"}
    assert (found.near, found.version) == (False, library.index.version)
    add_photos(library.root, 1)
    done(caretaker, "rescan")
    library.index.refresh()
    assert caretaker.found is found
    assert found.version != library.index.version


def test_one_thing_is_done_at_a_time_and_a_search_that_is_stopped_finds_nothing(caretaker: Caretaker) -> None:
    assert caretaker.start("find-copies")
    assert not caretaker.start("rescan")
    running = caretaker.state()
    assert isinstance(running, Running)
    assert (running.task, running.stopping) == ("find-copies", False)
    caretaker.stop()
    end = ended(caretaker)
    assert (end.task, end.stopped, end.found, caretaker.found) == ("find-copies", True, None, None)
    assert done(caretaker, "find-identical").found is not None


def test_copies_are_found_with_the_likeness_that_was_measured(caretaker: Caretaker, library: Library) -> None:
    small = Image.open(library.root / "tall.png").resize((150, 450))
    small.save(library.root / "tall small.jpg")
    done(caretaker, "rescan")
    found = done(caretaker, "find-copies").found
    assert found is not None
    assert found.near
    assert found.report.calibration is not None


def test_a_search_for_copies_without_an_encoder_fails_in_words(caretaker: Caretaker, library: Library) -> None:
    shutil.rmtree(library.index.folder / "encoder")
    failure = done(caretaker, "find-copies").failure
    assert failure is not None
    assert "--encoder" in failure


def test_without_its_drive_neither_work_asks_for_another_encoder_or_index(
    caretaker: Caretaker, library: Library
) -> None:
    shutil.rmtree(library.root)
    for task in ("rescan", "find-copies"):
        failure = done(caretaker, task).failure
        assert failure is not None
        assert "connect the drive" in failure


def test_once_closed_nothing_begins_any_more(caretaker: Caretaker) -> None:
    caretaker.close()
    assert not caretaker.start("rescan")
