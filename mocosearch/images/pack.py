"""A packed cache of downsized photos: each is decoded once, upright, and read many times without a decoder.

`pixels-G.u8` holds the RGB bytes of one photo after the other; `pack.sqlite` says where each begins, what its file
looked like then, why a file was skipped, and G. Pixels reach the disk before the row that names them, so a killed run
leaves at most bytes that no row names. Pixels of replaced and vanished files stay until they are more than those of the
others; then, while nobody else uses the pack, the living ones are written to generation G + 1, which becomes the pack's
in the transaction that moves the rows. A cache: it can be deleted at any time between two runs.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from filelock import FileLock

from mocosearch.errors import DamagedPack
from mocosearch.images.decode import ALWAYS_RETRY, Undecodable, decode, decoder_capabilities
from mocosearch.images.in_use import InUse
from mocosearch.images.packed import PackedPhoto, Pixels, map_pixels
from mocosearch_index.atomic import disk_errors_named, disk_full, not_writable, storage_failed, sync_folder
from mocosearch_index.paths import shown
from mocosearch_index.records import FileStamp

LOCK = "lock"  # the name of the writers' lock
CHANGED = "changed"  # the reason of a file that is no longer the one that was found
_TABLE = "pack.sqlite"
_PHOTOS_A_COMMIT = 128
_COLUMNS = ("path", "size", "mtime_ns", "start", "height", "width", "reason", "detail", "decoder")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS photos (
    path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    start INTEGER, height INTEGER, width INTEGER,           -- of a packed photo
    reason TEXT, detail TEXT, decoder TEXT                  -- of a skipped one
) STRICT
"""


@dataclass(frozen=True, slots=True)
class UnpackedPhoto:
    """A file that could not be decoded, and why."""

    path: bytes
    reason: str
    detail: str


def is_unchanged(path: Path, stamp: FileStamp) -> bool:
    """Tell whether the file at `path` is still the one that was found; raises OSError when it cannot be looked at."""
    status = path.stat()
    return (status.st_size, status.st_mtime_ns) == (stamp.size, stamp.mtime_ns)


class Pack:
    """The downsized copies of one folder's photos for one short side in pixels."""

    def __init__(self, folder: Path, *, short_side: int) -> None:
        """Open the pack in `folder`, or begin one; a damaged one is begun anew, or DamagedPack if others use it."""
        self.folder = folder
        self.short_side = short_side
        with _errors_named(folder):
            self._use = InUse(folder)  # so no generation is replaced below
            self._lock = FileLock(folder / LOCK, thread_local=False)
            with self._lock:
                self._table = self._open()
                self.pixels_path.touch()
                for file in folder.glob("pixels*.u8"):
                    if file != self.pixels_path:  # of a run that was killed while it replaced it
                        file.unlink()

    def _open(self) -> sqlite3.Connection:
        try:
            return _open_table(self.folder)
        except DamagedPack:
            with self._use.alone() as alone:
                if not alone:
                    raise
                for name in (f"{_TABLE}*", "pixels*.u8"):
                    for file in self.folder.glob(name):
                        file.unlink()
                return _open_table(self.folder)

    @property
    def pixels_path(self) -> Path:
        """The file of pixels; while this pack is open nobody else replaces it."""
        (generation,) = self._table.execute("PRAGMA user_version").fetchone()
        return self.folder / f"pixels-{generation}.u8"

    def update(
        self, root: Path, stamps: Iterable[FileStamp], *, progress: Callable[[int], None] = lambda done: None
    ) -> tuple[list[PackedPhoto], list[UnpackedPhoto]]:
        """Pack what is new or changed among `stamps` and return all that are packed and all that are not, in order.

        `progress` is told the number of photos done so far. Raises DiskFull; what was committed before is kept.
        Another process that packs at the same time is waited for; pixels that it reads are never overwritten.
        """
        packed: list[PackedPhoto] = []
        skipped: list[UnpackedPhoto] = []
        stamps = iter(stamps)
        with (
            _errors_named(self.folder),
            self._lock,
            ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool,
        ):
            self._forget_lost_pixels()
            known: list[FileStamp] = []
            while chunk := list(islice(stamps, _PHOTOS_A_COMMIT)):
                self._commit(root, [stamp for stamp in chunk if not self._is_current(stamp)], pool)
                known += chunk
                progress(len(known))
            self._drop_dead_pixels(os.fsencode(root), {stamp.path for stamp in known})
            for stamp in known:
                photo = self._row(stamp.path)
                if isinstance(photo, PackedPhoto):
                    packed.append(photo)
                else:
                    skipped.append(photo)
        return packed, skipped

    def pixels(self) -> Pixels:
        """Map the pixels of all photos, one flat read-only array."""
        return map_pixels(self.pixels_path)

    def _forget_lost_pixels(self) -> None:
        """Forget photos whose pixels are not there, before others' are written in their place: a file was cut off."""
        size = self.pixels_path.stat().st_size
        with self._table:
            self._table.execute("DELETE FROM photos WHERE start < 0 OR start + 3 * height * width > ?", (size,))

    def _is_current(self, stamp: FileStamp) -> bool:
        row = self._table.execute(
            "SELECT size, mtime_ns, reason, decoder FROM photos WHERE path = ?", (stamp.path,)
        ).fetchone()
        if row is None or row[:2] != (stamp.size, stamp.mtime_ns):
            return False
        reason, decoder = row[2:]
        return reason is None or (reason not in {CHANGED, *ALWAYS_RETRY} and decoder == decoder_capabilities())

    def _commit(self, root: Path, stamps: Sequence[FileStamp], pool: ThreadPoolExecutor) -> None:
        if not stamps:
            return
        top = os.fsencode(root)
        decoded = pool.map(lambda stamp: self._decode(top, stamp), stamps)
        rows: list[tuple[object, ...]] = []
        with _appending(self.pixels_path) as file:
            for stamp, result in zip(stamps, decoded, strict=True):
                known = (stamp.path, stamp.size, stamp.mtime_ns)
                if isinstance(result, Undecodable):
                    rows.append((*known, None, None, None, result.reason, result.detail, decoder_capabilities()))
                else:
                    rows.append((*known, file.tell(), *result.shape[:2], None, None, None))
                    file.write(result.tobytes())
        with self._table:
            self._table.executemany(f"INSERT OR REPLACE INTO photos VALUES ({', '.join('?' * len(_COLUMNS))})", rows)

    def _decode(self, top: bytes, stamp: FileStamp) -> Pixels | Undecodable:
        path = Path(os.fsdecode(os.path.join(top, stamp.path)))  # noqa: PTH118 - bytes
        try:
            if not is_unchanged(path, stamp):
                return Undecodable(CHANGED, "not the file that was found")
            return np.asarray(decode(path, short_side=self.short_side).image)
        except FileNotFoundError:
            return Undecodable(CHANGED, "gone since it was found")
        except Undecodable as error:
            return error

    def _row(self, path: bytes) -> PackedPhoto | UnpackedPhoto:
        size, mtime_ns, start, height, width, reason, detail = self._table.execute(
            "SELECT size, mtime_ns, start, height, width, reason, detail FROM photos WHERE path = ?", (path,)
        ).fetchone()
        if reason is not None:
            return UnpackedPhoto(path, reason, detail)
        return PackedPhoto(FileStamp(path, size, mtime_ns), start, height, width)

    def _drop_dead_pixels(self, top: bytes, listed: set[bytes]) -> None:
        """Give back what replaced and vanished files take, if it is more than the living need and nobody else reads."""
        size = self.pixels_path.stat().st_size
        rows = self._table.execute("SELECT path, start, 3 * height * width FROM photos WHERE start IS NOT NULL")
        living = [row for row in rows if row[0] in listed or os.path.exists(os.path.join(top, row[0]))]  # noqa: PTH110, PTH118
        needed = sum(row[2] for row in living)
        if size - needed <= needed or shutil.disk_usage(self.folder).free < needed:
            return
        with self._use.alone() as alone:
            if alone:
                self._rewrite(living)

    def _rewrite(self, living: Sequence[tuple[bytes, int, int]]) -> None:
        old, pixels = self.pixels_path, self.pixels()
        (generation,) = self._table.execute("PRAGMA user_version").fetchone()
        new, moved = self.folder / f"pixels-{generation + 1}.u8", []
        with _appending(new) as file:
            for path, start, length in living:
                moved.append((file.tell(), path))
                file.write(pixels[start : start + length].tobytes())
        sync_folder(self.folder)
        with self._table:
            self._table.execute("CREATE TEMP TABLE living (start INTEGER, path BLOB PRIMARY KEY)")
            self._table.executemany("INSERT INTO living VALUES (?, ?)", moved)
            self._table.execute("DELETE FROM photos WHERE start IS NOT NULL AND path NOT IN (SELECT path FROM living)")
            self._table.executemany("UPDATE photos SET start = ? WHERE path = ?", moved)
            self._table.execute("DROP TABLE living")
            self._table.execute(f"PRAGMA user_version = {generation + 1}")
        old.unlink()

    def close(self) -> None:
        """Close the table and end the use; mapped pixels stay valid."""
        self._table.close()
        self._use.close()


@contextmanager
def _appending(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write behind all there is, which others may be reading; on an error nothing is left of it."""
    with path.open("ab") as file:
        before = file.tell()
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                file.close()  # which tries to write the rest once more
            os.truncate(path, before)
            raise


def _open_table(folder: Path) -> sqlite3.Connection:
    """Open the table of photos, or make it; raises DamagedPack unless it is whole and has just these columns."""
    with _errors_named(folder):
        table = sqlite3.connect(folder / _TABLE)
        try:
            table.execute(_SCHEMA)
            columns = tuple(column[0] for column in table.execute("SELECT * FROM photos LIMIT 0").description)
            if columns != _COLUMNS or table.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise _damaged(folder)
        except (sqlite3.DatabaseError, UnicodeDecodeError, DamagedPack):
            table.close()
            raise
        return table


@contextmanager
def _errors_named(folder: Path) -> Iterator[None]:
    try:
        with disk_errors_named(folder):
            yield
    except UnicodeDecodeError as error:  # the text of an error of SQLite that quotes the damage
        raise _damaged(folder) from error
    except sqlite3.DatabaseError as error:
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # none: a text that is not UTF-8
        if kind == sqlite3.SQLITE_FULL:
            raise disk_full(folder) from error
        if kind in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}:
            raise not_writable(folder) from error
        if kind == sqlite3.SQLITE_IOERR:
            raise storage_failed(folder, str(error)) from error
        if kind in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}:  # ERROR: other columns
            raise _damaged(folder) from error
        raise


def _damaged(folder: Path) -> DamagedPack:
    return DamagedPack(
        f"The cache of photos {shown(folder)} is damaged: end the runs that use it and delete the folder."
    )
