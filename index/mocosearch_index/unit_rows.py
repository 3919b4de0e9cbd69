"""What comes in to be stored or searched by: finite rows of unit length."""

from collections.abc import Sequence

import numpy as np

from mocosearch_index.records import Float32


def unit_rows(vectors: Sequence[Float32] | Float32, dim: int) -> Float32:
    """Return `vectors` as unit rows (n, dim); ValueError when one has another length or no direction."""
    if any(np.shape(vector) != (dim,) for vector in vectors):
        raise ValueError(f"every vector must have {dim} numbers")
    rows = np.asarray(vectors, np.float32).reshape(-1, dim)
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(norms).all() or (norms == 0).any():
        raise ValueError("every vector must be finite and not all zeros")
    unit: Float32 = (rows / norms).astype(np.float32)
    return unit


def examples(vectors: Float32, dim: int) -> Float32:
    """Return `vectors` as unit rows (n, dim), zeros as they are; ValueError.

    They are rounded as stored vectors are, so that an example and the same one from the index cancel out.
    """
    rows = np.asarray(vectors, np.float32)
    if rows.ndim != 2:
        raise ValueError(f"examples must be (n, {dim}), not {rows.shape}")
    seen = rows.any(axis=1)
    units = np.zeros((len(rows), dim), np.float32)
    units[seen] = unit_rows(rows[seen], dim).astype(np.float16)
    return units
