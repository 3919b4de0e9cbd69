"""What every figure asks of its input: finite vectors, one label a vector."""

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import Unscorable

Vectors = NDArray[np.float32]
Labels = NDArray[np.int64]

_BLOCK = 2**22  # numbers converted at once


def checked_vectors(vectors: NDArray[np.floating]) -> Vectors:
    """Return (n, dim) as float32; ValueError for another shape, Unscorable for NaN or infinity."""
    if vectors.ndim != 2:
        raise ValueError(f"vectors must have shape (n, dim), not {vectors.shape}")
    checked = vectors.astype(np.float32, copy=False)
    finite = np.isfinite(checked).all(axis=1)
    if not finite.all():
        raise Unscorable(
            f"{np.count_nonzero(~finite)} of {len(vectors)} vectors hold NaN or infinity: the encoder is "
            "broken, train it again with a lower learning rate."
        )
    return checked


def unit_vectors(vectors: NDArray[np.floating]) -> Vectors:
    """Return the checked vectors with L2 norm 1; a zero vector stays zero, so it is like nothing at all."""
    checked = checked_vectors(vectors)
    norms = np.sqrt(np.einsum("nd,nd->n", checked, checked, dtype=np.float64))[
        :, None
    ]  # no square is too large or small
    norms[norms == 0] = 1
    unit: Vectors = checked / norms.astype(np.float32)
    return unit


def checked_labels(labels: NDArray[np.integer], count: int) -> Labels:
    """Return the labels (count,) renumbered 0 .. C-1 in the order of their values; every class occurs."""
    if labels.shape != (count,):
        raise ValueError(f"labels must have shape ({count},), not {labels.shape}")
    renumbered: Labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return renumbered


def gram(vectors: Vectors, center: NDArray[np.float64] | float = 0.0) -> NDArray[np.float64]:
    """Return x.T @ x (dim, dim) in float64 of x = `vectors` (n, dim) less `center` (dim,), some rows at a time."""
    total = np.zeros((vectors.shape[1], vectors.shape[1]))
    rows = max(1, _BLOCK // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        block = vectors[start : start + rows].astype(np.float64) - center
        total += block.T @ block
    return total
