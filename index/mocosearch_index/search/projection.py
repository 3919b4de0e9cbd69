"""PCA of the stored vectors: they are searched with fewer numbers, or with what many photos share counting less.

Fitted anew whenever it is wanted: no photo has to be embedded again.
"""

from dataclasses import dataclass
from typing import Self

import faiss
import numpy as np
from numpy.typing import NDArray

from mocosearch_index.records import Float32, SearchSettings

FEWEST = 50  # photos: with fewer, searches by the vectors as they are do as well
# Of the largest variance, added to all of them when whitening: docs/decisions.md measured it. With less of it,
# directions that hardly tell photos apart come to count as much as those that do.
_FLOOR = 0.2
_NOTHING_VARIES = 1e-7  # the largest variance of unit vectors that differ only by what float16 rounds off
_BLOCK = 4096  # vectors


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A vector v (dim,) becomes the unit vector along matrix @ v + offset, of `matrix` (d, dim) and `offset` (d,)."""

    matrix: Float32
    offset: Float32

    @classmethod
    def fit(cls, vectors: Float32, settings: SearchSettings) -> Self | None:
        """Fit what `settings` ask for to `vectors` (n, dim).

        None: nothing is asked for, n is too small, or all vectors are the same.
        """
        if not projects(settings) or not enough(len(vectors), settings):
            return None
        return cls.learn(vectors, settings.dim, _FLOOR if settings.whiten else None)

    @classmethod
    def learn(cls, vectors: Float32, dim: int | None, floor: float | None) -> Self | None:
        """Fit a PCA to `dim` numbers (None: all) to `vectors` (n, dim); None when all of them are the same.

        `floor`: whiten, with this share of the largest variance added to all variances; None: leave them.
        """
        mean = vectors.mean(axis=0, dtype=np.float64)
        variances, axes = np.linalg.eigh(_covariance(vectors, mean))  # ascending
        largest = variances[-1]
        if largest <= _NOTHING_VARIES:
            return None
        kept = slice(len(mean) - min(dim or len(mean), len(mean)), None)
        scales = 1 if floor is None else 1 / np.sqrt(variances[kept].clip(0) + floor * largest)
        matrix = np.ascontiguousarray((axes[:, kept] * scales).T, np.float32)
        return cls(matrix, (-matrix.astype(np.float64) @ mean).astype(np.float32))

    @property
    def dim(self) -> int:
        """How many numbers a projected vector has."""
        return len(self.offset)

    def apply(self, vectors: NDArray[np.floating]) -> Float32:
        """Return the projections (n, d) of `vectors` (n, dim) as unit vectors; zeros where nothing is left of one."""
        projected: Float32 = vectors.astype(np.float32, copy=False) @ self.matrix.T + self.offset
        faiss.normalize_L2(projected)
        return projected


def projects(settings: SearchSettings) -> bool:
    """Tell whether `settings` ask for a projection."""
    return settings.dim is not None or settings.whiten


def enough(count: int, settings: SearchSettings) -> bool:
    """Tell whether `count` photos are enough to fit one: the PCA of fewer than `settings.dim` has not so many axes."""
    return count >= max(FEWEST, settings.dim or 0)


def _covariance(vectors: Float32, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the covariance (dim, dim) of `vectors` (n, dim), without a centered copy of all of them."""
    total = np.zeros((len(mean), len(mean)))
    for start in range(0, len(vectors), _BLOCK):
        centered = vectors[start : start + _BLOCK] - mean.astype(np.float32)
        total += centered.T @ centered
    return total / len(vectors)
