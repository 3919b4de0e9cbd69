"""Who uses a cache folder: a shared lock of the system on a file in it, which ends with the process that holds it."""

import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = "in-use"


class InUse:
    """Keeps a folder in use until `close()`; its time of change is when that last began."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, or wait for who is just removing it or is alone in it."""
        self._descriptor = _opened(folder)
        self.close = weakref.finalize(self, os.close, self._descriptor)
        os.utime(folder / _NAME)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep all others out for a while; yields False, and keeps nobody out, if somebody is in.

        Only for who holds a lock that all who call this, or `unused`, hold: the change takes a moment without either.
        """
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)  # which the attempt may have lost
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)


def _opened(folder: Path) -> int:
    folder.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with suppress(FileExistsError):
            folder.mkdir()
        with suppress(FileNotFoundError):  # somebody removes the folder right now
            return _locked(folder, fcntl.LOCK_SH)


def _locked(folder: Path, how: int) -> int:
    """Open and lock the file in the folder; raises FileNotFoundError if the folder goes away meanwhile."""
    descriptor = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, how)
        if not os.path.samestat(os.fstat(descriptor), (folder / _NAME).stat()):
            raise FileNotFoundError
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Yield whether nobody uses the folder, and keep it so for a while; False as well if it is gone."""
    try:
        descriptor = _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        yield False
        return
    try:
        yield True
    finally:
        os.close(descriptor)


def last_used(folder: Path) -> float:
    """Return when somebody last began to use the folder, in seconds since 1970; 0 if that is not known."""
    try:
        return (folder / _NAME).stat().st_mtime
    except FileNotFoundError:
        return 0.0
