"""The one piece of work on a library that goes on behind the page: a rescan, or a search for copies.

It belongs to the server, not to a browser: closing the page stops nothing, and another one shows how far it is.
"""

import threading
import time
from dataclasses import dataclass, replace
from typing import Literal

from mocosearch.duplicates.find import DuplicateReport, find_duplicates
from mocosearch.library import Library, Progress, UpdateReport
from mocosearch_index.errors import MocosearchError
from mocosearch_index.records import Version

Task = Literal["rescan", "find-copies", "find-identical"]

_SECONDS_TO_JUDGE = 1.0  # of a step, before its speed tells how long it will take


@dataclass(frozen=True, slots=True)
class Found:
    """The copies that were found last. `near`: not only identical files were looked for."""

    report: DuplicateReport
    near: bool
    version: Version  # of the index when they were looked for: at another one they may be out of date


@dataclass(frozen=True, slots=True)
class Running:
    """How far the work is. `step`: a stage of an update or a step of the search for copies, empty before the first."""

    task: Task
    step: str = ""
    done: int = 0  # photos
    total: int | None = None
    seconds_left: float | None = None  # of this step
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How the last work ended: as it should with `update` or `found`, by `failure` in words, else it was stopped."""

    task: Task
    update: UpdateReport | None = None
    found: Found | None = None
    failure: str | None = None

    @property
    def stopped(self) -> bool:
        """Whether somebody ended it early; a rescan keeps what it did until then."""
        return self.update.stopped if self.update else self.found is None and self.failure is None


class Caretaker:
    """Works in a thread of its own, one task at a time. Safe to call from many threads."""

    def __init__(self, library: Library) -> None:
        """Look after `library`, which is open for reading and stays so."""
        self._library = library
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._state: Running | Ended | None = None
        self._found: Found | None = None
        self._step_began = _Mark(0, 0.0)
        self._closed = False

    def start(self, task: Task) -> bool:
        """Begin with a task; False, and nothing is done, when one is going on or the server is about to stop."""
        with self._lock:
            if self._closed or isinstance(self._state, Running):
                return False
            self._stopping.clear()
            self._state = Running(task)
            self._thread = threading.Thread(target=self._work, args=(task,), name=task)
            self._thread.start()
            return True

    def stop(self) -> None:
        """Ask the work to end early; a rescan commits what it has done."""
        self._stopping.set()

    def close(self) -> None:
        """Stop for good, and wait until the work has ended."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self.stop()
        if thread:
            thread.join()

    def state(self) -> Running | Ended | None:
        """Tell how far the work is, or how it ended; None before the first."""
        with self._lock:
            state, began = self._state, self._step_began
        if not isinstance(state, Running):
            return state
        left = began.seconds_left(state.done, state.total)
        return replace(state, seconds_left=left, stopping=self._stopping.is_set())

    @property
    def found(self) -> Found | None:
        """What the last search for copies that came to its end has found."""
        return self._found

    def _work(self, task: Task) -> None:
        ended = Ended(task, failure="It ended by a fault of the program: the server's messages say more.")
        try:
            ended = self._rescan() if task == "rescan" else self._find(task)
        except _Stopped:
            ended = Ended(task)
        except MocosearchError as error:
            ended = Ended(task, failure=str(error))
        finally:
            with self._lock:
                self._state = ended

    def _rescan(self) -> Ended:
        with self._library.reopened() as writer:
            return Ended("rescan", update=writer.update(self._updating, self._stopping.is_set))

    def _find(self, task: Task) -> Ended:
        self._library.index.refresh()
        version, near = self._library.index.version, task == "find-copies"
        self._found = Found(find_duplicates(self._library, near=near, progress=self._advance), near, version)
        return Ended(task, found=self._found)

    def _updating(self, progress: Progress) -> None:
        if progress.stage == "walking" and self._stopping.is_set():  # the walk itself asks nobody whether to go on
            raise _Stopped
        self._note(progress.stage, progress.done, progress.total)

    def _advance(self, step: str, done: int, total: int) -> None:
        if self._stopping.is_set():
            raise _Stopped
        self._note(step, done, total)

    def _note(self, step: str, done: int, total: int | None) -> None:
        with self._lock:
            if not isinstance(self._state, Running):
                return
            if step != self._state.step:
                self._step_began = _Mark(done, time.monotonic())
            self._state = Running(self._state.task, step, done, total)


class _Stopped(Exception):
    """Somebody asked the work to end."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """Where a step began."""

    done: int
    at: float  # seconds, monotonic

    def seconds_left(self, done: int, total: int | None) -> float | None:
        """Estimate how long the rest takes at the step's speed so far; None while that cannot be told."""
        passed = time.monotonic() - self.at
        if total is None or done <= self.done or passed < _SECONDS_TO_JUDGE:
            return None
        return passed * (total - done) / (done - self.done)
