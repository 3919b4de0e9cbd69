"""Keeping a library true while its folder changes: events where the file system gives them, a rescan now and then."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

from mocosearch_index.paths import shown

# A rescan whatever the events say, for some file systems send none; of the time it takes 5% at most.
RESCAN_SECONDS = 60.0
_RESCAN_SHARE = 0.05
_RESCAN_AT_MOST_SECONDS = 900.0  # also when the last update was long, for it had much to embed
_RETRY_SECONDS = 5.0  # after an update that could not be done
_LOOK_SECONDS = 1.0  # how soon it is seen that a drive came or went
_QUIET_SECONDS = 0.5  # files that are being copied send events all the time: an update waits until they pause,
_BUSY_SECONDS = 10.0  # but no longer than this


def watch(
    root: Path, index: Path, update: Callable[[], bool], stop: Callable[[], bool], tell: Callable[[str], None]
) -> None:
    """Call `update` at once and whenever the folder `root` may have changed, until `stop()`.

    `index`: the folder of the index, whose own changes do not count. `update` returns whether it could be done; it is
    called again soon when not, and when another drive is at `root` or it is back. `tell` is given lines for a person.
    """
    while not stop():
        place = _place(root)
        if place is None:
            tell(f"{shown(root)} is gone: waiting until it is back")
        while place is None and not stop():
            time.sleep(_LOOK_SECONDS)
            place = _place(root)
        due = 0.0
        for may_have_changed in _moments(root, index, stop, tell):
            if _place(root) != place:
                break
            if may_have_changed or time.monotonic() >= due:
                began = time.monotonic()
                is_done = update()
                ended = time.monotonic()
                rest = max(RESCAN_SECONDS, min((ended - began) / _RESCAN_SHARE, _RESCAN_AT_MOST_SECONDS))
                due = ended + (rest if is_done else _RETRY_SECONDS)


def _moments(root: Path, index: Path, stop: Callable[[], bool], tell: Callable[[str], None]) -> Iterator[bool]:
    """Yield about every second, and at once after an event, whether there were events; end when `stop()`."""
    import watchfiles

    # Events name real paths.
    top, own = str(root.resolve()), str(index.resolve())
    try:
        for events in watchfiles.watch(
            top,
            watch_filter=lambda change, path: path != own and not path.startswith(own + os.sep),
            debounce=int(1000 * _BUSY_SECONDS),
            step=int(1000 * _QUIET_SECONDS),
            rust_timeout=int(1000 * _LOOK_SECONDS),
            yield_on_timeout=True,
            stop_event=SimpleNamespace(is_set=stop),
            ignore_permission_denied=True,
        ):
            yield bool(events)
    except FileNotFoundError:  # gone between two looks
        return
    except OSError as error:  # the system's limit of watched folders
        tell(f"{shown(root)} cannot be watched ({error}): looking through it now and then instead")
        while not stop():
            time.sleep(_LOOK_SECONDS)
            yield False


def _place(root: Path) -> tuple[int, int] | None:
    """Return what tells one folder from another that is mounted in its place; None when there is none."""
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
