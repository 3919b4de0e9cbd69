"""Exact search with FAISS over float16 vectors, and its file: a cache that can always be made again.

The one place that knows FAISS.
"""

import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import faiss
import numpy as np
from numpy.typing import NDArray

from mocosearch_index.atomic import atomic_path

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

_MAGIC = b"mocoann\n"
_VERSION = 1
_BLOCK = 1 << 20
# Behind what FAISS wrote (FAISS itself ignores it): magic, version, identity, generation, change, count,
# crc32 of the FAISS part; then a crc32 of these.
_FOOTER = struct.Struct("<8sI16sIQQI")
_FOOTER_BYTES = _FOOTER.size + 4


class ExactSearch:
    """Inner product with every vector, kept as float16. Searches may run in parallel, changes may not."""

    _index: faiss.IndexIDMap

    def __init__(self, dim: int) -> None:
        scalar = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        self._index = faiss.IndexIDMap(scalar)

    @property
    def ids(self) -> Int64:
        """The ids in storage order (n,)."""
        ids: Int64 = faiss.vector_to_array(self._index.id_map)
        return ids

    def add(self, ids: Int64, vectors: NDArray[np.floating]) -> None:
        """Add `vectors` (n, dim) under `ids` (n,), none of which may be there yet: FAISS would keep both."""
        self._index.add_with_ids(np.ascontiguousarray(vectors, np.float32), ids)

    def remove(self, ids: Int64) -> None:
        """Remove those of `ids` that are there."""
        there = ids[np.isin(ids, self.ids)]
        if len(there):
            self._index.remove_ids(faiss.IDSelectorBatch(there))

    def search(self, queries: Float32, k: int, only: Int64 | None = None) -> tuple[Float32, Int64]:
        """Return scores and ids (q, min(k, n)) of the nearest, best first; queries (q, dim) are finite.

        `only`: ids of those that may be found; the places of others have the id -1.
        """
        k = min(k, self._index.ntotal if only is None else len(only))
        if k == 0:  # FAISS refuses k = 0
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        params = None if only is None else faiss.SearchParameters(sel=selector(only))
        scores, ids = self._index.search(queries, k, params=params)
        return scores, ids

    def save(self, path: Path, identity: bytes, generation: int, change: int) -> None:
        """Write the search structure as a FAISS file with a footer that says what it was made from."""
        crc = 0
        with atomic_path(path) as partial, partial.open("wb") as file:

            def write(data: bytes) -> int:
                nonlocal crc
                crc = zlib.crc32(data, crc)
                return file.write(data)

            writer = faiss.PyCallbackIOWriter(write)  # type: ignore[attr-defined]
            faiss.write_index(self._index, writer)
            footer = _FOOTER.pack(_MAGIC, _VERSION, identity, generation, change, self._index.ntotal, crc)
            file.write(footer + struct.pack("<I", zlib.crc32(footer)))

    @classmethod
    def load(cls, path: Path, dim: int, identity: bytes, generation: int, change: int) -> "ExactSearch | None":
        """Read what `save` wrote; None when it is missing, damaged, or made from something else."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        with file:  # one descriptor throughout: the file at `path` may be replaced meanwhile
            footer = _read_footer(file)
            if footer is None or footer[:3] != (identity, generation, change) or not _intact(file, footer[4]):
                return None
            file.seek(0)
            reader = faiss.PyCallbackIOReader(file.read)  # type: ignore[attr-defined]
            index = faiss.read_index(reader)
        if not isinstance(index, faiss.IndexIDMap) or (index.d, index.ntotal) != (dim, footer[3]):
            return None
        search = cls(dim)
        search._index = index
        return search


def selector(ids: Int64) -> faiss.IDSelectorBitmap:
    """Return what lets FAISS find only `ids`: one bit an id, since ids are dense."""
    wanted = np.zeros(int(ids.max()) + 1, bool)
    wanted[ids] = True
    return faiss.IDSelectorBitmap(np.packbits(wanted, bitorder="little"))


def is_of(path: Path, identity: bytes, generation: int, change: int) -> bool:
    """Tell, by its footer alone, whether the search file at `path` was made from this."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        footer = _read_footer(file)
    return footer is not None and footer[:3] == (identity, generation, change)


def damaged(path: Path) -> bool:
    """Tell whether the search file at `path` fails its checksums."""
    with path.open("rb") as file:
        footer = _read_footer(file)
        return footer is None or not _intact(file, footer[4])


def _read_footer(file: BinaryIO) -> tuple[bytes, int, int, int, int] | None:
    """Return (identity, generation, change, count, crc of the FAISS part), or None when not intact."""
    size = file.seek(0, 2)
    if size < _FOOTER_BYTES:
        return None
    file.seek(size - _FOOTER_BYTES)
    data = file.read(_FOOTER.size)
    magic, version, identity, generation, change, count, crc = _FOOTER.unpack(data)
    (own_crc,) = struct.unpack("<I", file.read(4))
    if (magic, version, own_crc) != (_MAGIC, _VERSION, zlib.crc32(data)):
        return None
    return identity, generation, change, count, crc


def _intact(file: BinaryIO, crc: int) -> bool:
    """Compare the FAISS part with its checksum: FAISS itself mostly loads damaged files silently."""
    left = file.seek(0, 2) - _FOOTER_BYTES
    file.seek(0)
    found = 0
    while left > 0:
        block = file.read(min(_BLOCK, left))
        if not block:
            return False
        found, left = zlib.crc32(block, found), left - len(block)
    return found == crc
