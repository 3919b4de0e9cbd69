"""A bounded folder of files that can be made again: those that were not used for longest go first."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mocosearch_index.atomic import PARTIAL, atomic_write
from mocosearch_index.errors import DiskFull, NotWritable, StorageFailed

LIMIT = 2 * 10**9  # bytes
FOLDERS = 256  # by the first two hexadecimal digits of a name
UNWRITABLE = (OSError, DiskFull, NotWritable, StorageFailed)
_SUFFIX = ".webp"
_DAY = 86_400  # seconds: how exactly it is known when a file was used
_STALE = 3600  # seconds after which nobody is still at writing a file


class FileCache:
    """WebP files by names of hexadecimal digits. Safe to use from many threads and processes.

    Each of the FOLDERS keeps its share of `limit`, so that a new file costs a look at some hundreds of others,
    however large the cache is. When a file was used last, its modification time tells.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        """`folder` may also hold files of other names directly in it, which stay. `limit` in bytes."""
        self._folder = folder
        self._share = limit // FOLDERS
        with suppress(OSError):
            for file in _files(folder):  # earlier versions kept everything here, without a bound
                if file.path.suffix == _SUFFIX or file.is_stale:
                    file.path.unlink(missing_ok=True)

    def read(self, name: str) -> bytes | None:
        """Return what is kept under `name`; None when there is nothing, or it cannot be read."""
        path = self._path(name)
        try:
            with path.open("rb") as file:
                data = file.read()
                used = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        if time.time() - used > _DAY:
            with suppress(OSError):
                os.utime(path)
        return data

    def write(self, name: str, data: bytes) -> None:
        """Keep `data` under `name`. Where nothing can be written, nothing is kept: a cache only saves time."""
        path = self._path(name)
        with suppress(*UNWRITABLE):
            for folder in (self._folder, path.parent):  # the whole cache may be deleted at any time
                folder.mkdir(mode=0o700, exist_ok=True)
            atomic_write(path, data)
            self._bound(path.parent)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / f"{name}{_SUFFIX}"

    def _bound(self, folder: Path) -> None:
        room = self._share
        for file in sorted(_files(folder), key=lambda file: file.used, reverse=True):
            if file.is_partial and not file.is_stale:
                continue
            room -= file.size
            if room < 0 or file.is_partial:
                file.path.unlink(missing_ok=True)  # another process may bound it, too


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    size: int  # bytes
    used: float  # seconds since 1970

    @property
    def is_partial(self) -> bool:
        return self.path.suffix == PARTIAL

    @property
    def is_stale(self) -> bool:
        """Whether a process that was killed left it half-written."""
        return self.is_partial and time.time() - self.used > _STALE


def _files(folder: Path) -> Iterator[_File]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    yield _File(Path(entry.path), status.st_size, status.st_mtime)
