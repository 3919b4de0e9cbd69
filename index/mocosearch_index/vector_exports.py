"""Vectors in the files of others: FAISS and NumPy, whole or not at all, nothing of ours in them."""

from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np

from mocosearch_index.atomic import atomic_path
from mocosearch_index.records import Float32
from mocosearch_index.vectors import Float16, Int64

_ROWS = 16384  # at once


def write_plain_faiss(path: Path, ids: Int64, vectors: Float16) -> None:
    """Write an `IndexIDMap2` of an `IndexFlatIP`: `vectors` (n, dim) as float32 of unit length, under `ids` (n,)."""
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(vectors.shape[1]))
    for part, block in _unit_blocks(vectors):
        index.add_with_ids(block, ids[part])
    with atomic_path(path) as partial, partial.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))  # type: ignore[attr-defined]


def write_npy(path: Path, vectors: Float16) -> None:
    """Write `vectors` (n, dim) as a float32 array of unit rows that `numpy.load` reads."""
    descr = np.lib.format.dtype_to_descr(np.dtype(np.float32))
    # Written, not mapped: on a full disk a mapped file ends the process.
    with atomic_path(path) as partial, partial.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": vectors.shape})
        for _, block in _unit_blocks(vectors):
            file.write(block.data)


def _unit_blocks(vectors: Float16) -> Iterator[tuple[slice, Float32]]:
    """Yield (part, its rows as float32 of unit length), so that only a block is held twice."""
    for start in range(0, len(vectors), _ROWS):
        part = slice(start, start + _ROWS)
        block = vectors[part].astype(np.float32)
        yield part, block / np.linalg.norm(block, axis=1, keepdims=True)
