"""The vector file: an append-only table of float16 rows, each with a checksum. Truth, with the catalog.

    header   64 bytes: magic, format version (u32), dim (u32), identity of the index (16), crc32 of it, zeros
    row r    dim float16 and a crc32 of them, seeded with r, so that a row in the wrong place is found too

All numbers are little-endian. The catalog says how many rows count: what lies behind them is a torn commit.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mocosearch_index.atomic import atomic_write, not_writable
from mocosearch_index.errors import REBUILD, VERIFY, DamagedIndex, NewerFormat, NotReadable
from mocosearch_index.paths import shown

Float16 = NDArray[np.float16]
Int64 = NDArray[np.int64]

VERSION = 1
_MAGIC = b"mocovec\n"
_FIELDS = struct.Struct("<8sII16s")
_HEADER_BYTES = 64
_BLOCK_BYTES = 8 << 20  # read at once when all rows are wanted


class VectorFile:
    """Rows of one vector file. Reading is safe from many threads; one writer appends."""

    def __init__(self, path: Path, dim: int, identity: bytes, *, writable: bool = False) -> None:
        """Open `path`, made for rows of `dim` numbers and this index; else DamagedIndex, NewerFormat, NotReadable."""
        self.path = path
        self.dim = dim
        self._identity = identity
        self._row = np.dtype([("vector", "<f2", (dim,)), ("crc", "<u4")])
        try:
            self._file = path.open("r+b" if writable else "rb", buffering=0)
        except FileNotFoundError:
            raise DamagedIndex(f"The vector file {shown(path)} is missing: {VERIFY}") from None
        except PermissionError:
            if writable:
                raise not_writable(path.parent) from None
            raise NotReadable(f"Cannot read {shown(path)}: change its permissions.") from None
        try:
            self._check_header()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def create(path: Path, dim: int, identity: bytes) -> None:
        """Write a vector file without rows."""
        atomic_write(path, _header(dim, identity))

    @staticmethod
    def restore(path: Path, dim: int, identity: bytes, rows: int) -> str | None:
        """Give a file that is missing, too short or without a sound header its header and its length.

        Return what was wrong, None when nothing. Rows that were lost fail their checksum. DamagedIndex, and nothing is
        changed, when the header is sound and of another index.
        """
        wrong = None
        if not path.exists():
            wrong = "was missing"
            VectorFile.create(path, dim, identity)
        with path.open("r+b") as file:
            header = file.read(_HEADER_BYTES)
            if not _is_sound(header):
                wrong = "had no sound header"
                file.seek(0)
                file.write(_header(dim, identity))
                file.flush()
            with VectorFile(path, dim, identity) as vectors:
                length = vectors._offset(rows)
            if os.fstat(file.fileno()).st_size < length:
                wrong = wrong or f"was shorter than its {rows} vectors"
                file.truncate(length)
            os.fsync(file.fileno())
        return wrong

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_header(self) -> None:
        header = os.pread(self._file.fileno(), _HEADER_BYTES, 0)
        if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
            raise DamagedIndex(f"{shown(self.path)} is not a vector file: {VERIFY}")
        _, version, dim, identity = _FIELDS.unpack_from(header)
        if version > VERSION:
            raise NewerFormat(
                f"{shown(self.path)} was written by a newer mocosearch "
                f"(format {version}, this one reads up to {VERSION}): update mocosearch."
            )
        if not _is_sound(header):
            raise DamagedIndex(f"The header of {shown(self.path)} is damaged: {VERIFY}")
        if (dim, identity) != (self.dim, self._identity):
            raise DamagedIndex(f"{shown(self.path)} is of another index: {REBUILD}")

    def check_length(self, rows: int) -> None:
        """Raise DamagedIndex when the file is too short to hold `rows` rows."""
        if os.fstat(self._file.fileno()).st_size < self._offset(rows):
            raise DamagedIndex(f"{shown(self.path)} is shorter than the {rows} vectors it should hold: {VERIFY}")

    def append(self, vectors: Float16, after: int) -> None:
        """Write `vectors` (n, dim) as rows `after`, `after` + 1, ..., over anything there, and sync."""
        records = np.empty(len(vectors), self._row)
        records["vector"] = vectors
        for place, vector in enumerate(records["vector"]):
            records["crc"][place] = _checksum(vector, after + place)
        data = records.data.cast("B")
        position = self._offset(after)
        while data:
            written = os.pwrite(self._file.fileno(), data, position)
            data, position = data[written:], position + written
        os.fsync(self._file.fileno())

    def cut(self, rows: int) -> None:
        """Drop everything behind the first `rows` rows: the torn end of a commit that did not happen."""
        if os.fstat(self._file.fileno()).st_size > self._offset(rows):
            os.ftruncate(self._file.fileno(), self._offset(rows))

    def read(self, rows: Sequence[int] | Int64) -> Float16:
        """Return the vectors (n, dim) of `rows` in their order; DamagedIndex when one fails its checksum."""
        vectors = np.empty((len(rows), self.dim), np.float16)
        for place, row in enumerate(rows):
            data = os.pread(self._file.fileno(), self._row.itemsize, self._offset(row))
            if len(data) < self._row.itemsize:
                raise self._damaged(int(row))
            record = np.frombuffer(data, self._row)[0]
            if record["crc"] != _checksum(record["vector"], row):
                raise self._damaged(int(row))
            vectors[place] = record["vector"]
        return vectors

    def blocks(self, rows: Int64) -> Iterator[tuple[slice, Float16]]:
        """Yield (part of `rows`, their vectors) front to back, a few megabytes at a time; `rows` must ascend.

        DamagedIndex when a row fails its checksum.
        """
        for part, vectors, good in self._checked_blocks(rows):
            if not good.all():
                raise self._damaged(int(rows[part][~good][0]))
            yield part, vectors

    def damaged_rows(self, rows: Int64) -> Int64:
        """Return those of `rows` (ascending) that fail their checksum."""
        bad = [rows[part][~good] for part, _, good in self._checked_blocks(rows)]
        return np.concatenate([np.empty(0, np.int64), *bad])

    def _checked_blocks(self, rows: Int64) -> Iterator[tuple[slice, Float16, NDArray[np.bool_]]]:
        """Yield (part of `rows`, vectors (n, dim), whether each passes its checksum (n,))."""
        rows_at_once = max(1, _BLOCK_BYTES // self._row.itemsize)
        start = 0
        while start < len(rows):
            first = int(rows[start])
            stop = int(np.searchsorted(rows, first + rows_at_once))
            # The block ends at its last wanted row, and rows behind the end of a cut file come out as zeros.
            span = int(rows[stop - 1]) - first + 1
            data = os.pread(self._file.fileno(), span * self._row.itemsize, self._offset(first))
            records = np.frombuffer(data.ljust(span * self._row.itemsize, b"\0"), self._row)
            wanted = records[rows[start:stop] - first]
            sums = [_checksum(*pair) for pair in zip(wanted["vector"], rows[start:stop].tolist(), strict=True)]
            yield slice(start, stop), wanted["vector"], wanted["crc"] == np.array(sums, np.uint32)
            start = stop

    def _offset(self, row: int) -> int:
        return _HEADER_BYTES + int(row) * self._row.itemsize

    def _damaged(self, row: int) -> DamagedIndex:
        return DamagedIndex(f"Vector {row} in {shown(self.path)} fails its checksum: {VERIFY}")


def _header(dim: int, identity: bytes) -> bytes:
    fields = _FIELDS.pack(_MAGIC, VERSION, dim, identity)
    return (fields + struct.pack("<I", zlib.crc32(fields))).ljust(_HEADER_BYTES, b"\0")


def _is_sound(header: bytes) -> bool:
    if len(header) < _HEADER_BYTES:
        return False
    (crc,) = struct.unpack_from("<I", header, _FIELDS.size)
    return crc == zlib.crc32(header[: _FIELDS.size]) and not any(header[_FIELDS.size + 4 :])


def _checksum(vector: Float16, row: int) -> int:
    return zlib.crc32(vector.data, row & 0xFFFFFFFF)
