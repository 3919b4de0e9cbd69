"""A packed cache of downsized photos: each is decoded once, upright, and read many times without a decoder.

`pixels.u8` holds the RGB bytes of one photo after the other; `pack.sqlite` says where each begins, what its file
looked like then, and why a file was skipped. Pixels reach the disk before the row that names them, so a killed run
leaves at most bytes that no row names. A cache: it can be deleted at any time between two runs.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from mocosearch.images.decode import ALWAYS_RETRY, Undecodable, decode, decoder_capabilities
from mocosearch_index.atomic import disk_errors_named
from mocosearch_index.records import FileStamp

CHANGED = "changed"  # the reason of a file that is no longer the one that was found
_PHOTOS_A_COMMIT = 128
_SCHEMA = """
CREATE TABLE IF NOT EXISTS photos (
    path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    start INTEGER, height INTEGER, width INTEGER,           -- of a packed photo
    reason TEXT, detail TEXT, decoder TEXT                  -- of a skipped one
) STRICT
"""


@dataclass(frozen=True, slots=True)
class PackedPhoto:
    """Where the pixels of a photo lie in the pack."""

    stamp: FileStamp
    start: int  # bytes
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class UnpackedPhoto:
    """A file that could not be decoded, and why."""

    path: bytes
    reason: str
    detail: str


class Pack:
    """The downsized copies of one folder's photos for one short side in pixels."""

    def __init__(self, folder: Path, *, short_side: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.short_side = short_side
        self._pixels_path = folder / "pixels.u8"
        self._pixels_path.touch()
        self._lock = FileLock(folder / "lock", thread_local=False)
        self._table = sqlite3.connect(folder / "pack.sqlite")
        self._table.execute(_SCHEMA)

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
            disk_errors_named(self.folder),
            self._lock,
            ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool,
        ):
            while chunk := list(islice(stamps, _PHOTOS_A_COMMIT)):
                self._commit(root, [stamp for stamp in chunk if not self._is_current(stamp)], pool)
                for stamp in chunk:
                    photo = self._row(stamp.path)
                    (packed if isinstance(photo, PackedPhoto) else skipped).append(photo)  # type: ignore[arg-type]
                progress(len(packed) + len(skipped))
        return packed, skipped

    def pixels(self) -> NDArray[np.uint8]:
        """Map the pixels of all photos, one flat read-only array."""
        if self._pixels_path.stat().st_size == 0:
            return np.empty(0, dtype=np.uint8)
        return np.memmap(self._pixels_path, dtype=np.uint8, mode="r")

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
        with self._pixels_path.open("ab") as file:  # behind all there is: others may be reading it
            for stamp, result in zip(stamps, decoded, strict=True):
                known = (stamp.path, stamp.size, stamp.mtime_ns)
                if isinstance(result, Undecodable):
                    rows.append((*known, None, None, None, result.reason, result.detail, decoder_capabilities()))
                else:
                    rows.append((*known, file.tell(), *result.shape[:2], None, None, None))
                    file.write(result.tobytes())
            file.flush()
            os.fsync(file.fileno())
        with self._table:
            self._table.executemany(f"INSERT OR REPLACE INTO photos VALUES ({', '.join('?' * 9)})", rows)

    def _decode(self, top: bytes, stamp: FileStamp) -> NDArray[np.uint8] | Undecodable:
        path = Path(os.fsdecode(os.path.join(top, stamp.path)))  # noqa: PTH118 - bytes
        try:
            status = path.stat()
            if (status.st_size, status.st_mtime_ns) != (stamp.size, stamp.mtime_ns):
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

    def close(self) -> None:
        """Close the table; mapped pixels stay valid."""
        self._table.close()


def images_of(pixels: NDArray[np.uint8], photos: Sequence[PackedPhoto]) -> Iterator[NDArray[np.uint8]]:
    """Yield each photo as a view (height, width, 3) of the mapped pixels."""
    for photo in photos:
        flat = pixels[photo.start : photo.start + 3 * photo.height * photo.width]
        yield flat.reshape(photo.height, photo.width, 3)
