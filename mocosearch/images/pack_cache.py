"""The folder of all packs, and its bound."""

import shutil
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
        sizes = {folder: _bytes_of(folder) for folder in packs.iterdir() if folder.is_dir()}
        for folder in sorted(sizes, key=last_used):
            if sum(sizes.values()) <= limit:
                return
            if _drop(folder):
                del sizes[folder]


def _drop(folder: Path) -> bool:
    """Remove a pack unless it is in use; under its own name it is there as a whole or not at all."""
    try:
        with FileLock(folder / LOCK, timeout=0), unused(folder) as is_unused:
            if not is_unused:
                return False
            dropped = folder.rename(folder.with_name(_DROPPED + folder.name))
    except Timeout:
        return False
    shutil.rmtree(dropped)
    return True


def _bytes_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())
