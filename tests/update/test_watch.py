"""Following a folder: what lets the library be updated, and what does not."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mocosearch.update import watch as module
from mocosearch.update.watch import watch

LONG = 3600.0


class Follower:
    """Watches a folder in a thread and counts the updates."""

    def __init__(self, root: Path, answers: Iterator[bool]) -> None:
        self.root, self.updates, self.lines = root, 0, list[str]()
        self._answers = answers
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        watch(self.root, self.root / ".mocosearch", self._update, self._end.is_set, self.lines.append)

    def _update(self) -> bool:
        self.updates += 1
        return next(self._answers, True)

    def end(self) -> None:
        self._end.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Follower]]:
    """Start following a folder of one file; without events nothing happens for an hour."""
    for name, seconds in (("RESCAN", LONG), ("_RETRY", LONG), ("_LOOK", 0.05), ("_QUIET", 0.05)):
        monkeypatch.setattr(module, f"{name}_SECONDS", seconds)
    root = tmp_path / "photos"
    (root / ".mocosearch").mkdir(parents=True)
    (root / "a.jpg").write_bytes(b"a")
    started: list[Follower] = []

    def start(*answers: bool) -> Follower:
        started.append(Follower(root, iter(answers)))
        return started[-1]

    yield start
    for follower in started:
        follower.end()


def test_an_update_comes_at_once_and_after_a_change_in_any_folder(follow: Callable[..., Follower]) -> None:
    follower = follow()
    wait_until(lambda: follower.updates == 1)
    (follower.root / "sub").mkdir()
    wait_until(lambda: follower.updates == 2)
    (follower.root / "sub" / "b.jpg").write_bytes(b"b")
    wait_until(lambda: follower.updates == 3)
    (follower.root / "a.jpg").rename(follower.root / "sub" / "c.jpg")
    wait_until(lambda: follower.updates == 4)


def test_what_the_index_itself_writes_is_no_change(follow: Callable[..., Follower]) -> None:
    follower = follow()
    wait_until(lambda: follower.updates == 1)
    for number in range(20):
        (follower.root / ".mocosearch" / "catalog").write_bytes(b"%d" % number)
        time.sleep(0.02)
    assert follower.updates == 1


def test_a_drive_that_goes_and_comes_back_is_waited_for(follow: Callable[..., Follower], tmp_path: Path) -> None:
    follower = follow()
    wait_until(lambda: follower.updates == 1)
    follower.root.rename(tmp_path / "unplugged")
    wait_until(lambda: len(follower.lines) == 1)
    assert "waiting until it is back" in follower.lines[0]
    before = follower.updates  # the last moment of the folder may have been an event
    (tmp_path / "unplugged").rename(follower.root)
    wait_until(lambda: follower.updates > before)
    before = follower.updates
    (follower.root / "new.jpg").write_bytes(b"new")
    wait_until(lambda: follower.updates > before)


def test_without_any_event_it_is_looked_at_now_and_then(
    follow: Callable[..., Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESCAN_SECONDS", 0.0)
    follower = follow()
    wait_until(lambda: follower.updates == 3)


def test_an_update_that_could_not_be_done_is_tried_again(
    follow: Callable[..., Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    follower = follow(False, False, True)
    wait_until(lambda: follower.updates == 3)
