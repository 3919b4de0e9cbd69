"""The folder of all packs, and its bound; other processes may use, make and remove packs meanwhile."""

import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from mocosearch.images.in_use import last_used, unused
from mocosearch.images.pack import LOCK
from mocosearch_index.atomic import disk_errors_named

PACKS_LIMIT = 20 * 10**9  # bytes
_DROPPED = "dropped-"


def drop_unused_packs(packs: Path, *, limit: int = PACKS_LIMIT) -> None:
    """Remove packs in the folder `packs`, those used longest ago first, until all together have at most `limit` bytes.

    One that is in use stays, so that those alone may be more. A run that is resumed packs its photos again.
    """
    with disk_errors_named(packs):
        for rest in packs.glob(f"{_DROPPED}*"):  # of a process that was killed while it removed it
            shutil.rmtree(rest, ignore_errors=True)
        folders = [path for path in packs.iterdir() if path.is_dir() and not path.name.startswith(_DROPPED)]
        sizes = {folder: _bytes_of(folder) for folder in folders}
        for folder in sorted(sizes, key=last_used):
            if sum(sizes.values()) <= limit:
                return
            if _drop(folder) or not folder.exists():  # another process was faster
                del sizes[folder]


def _drop(folder: Path) -> bool:
    """Remove a pack unless it is in use; under its own name it is there as a whole or not at all."""
    try:
        with FileLock(folder / LOCK, timeout=0), unused(folder) as is_unused:
            if not is_unused:
                return False
            dropped = folder.rename(folder.with_name(f"{_DROPPED}{secrets.token_hex(4)}-{folder.name}"))
    except (Timeout, FileNotFoundError, FileExistsError):  # the lock is taken, or the folder goes away
        return False
    shutil.rmtree(dropped, ignore_errors=True)  # another process may be at it
    return True


def _bytes_of(folder: Path) -> int:
    size = 0
    with suppress(FileNotFoundError):  # it goes away
        for file in folder.iterdir():
            with suppress(FileNotFoundError):  # such as the journal of a table
                size += file.stat().st_size
    return size
