"""PCA of the stored vectors: they are searched with fewer numbers, or with all directions weighing the same.

Fitted anew whenever it is wanted: no photo has to be embedded again.
"""

from dataclasses import dataclass
from typing import Self

import faiss
import numpy as np
from numpy.typing import NDArray

from mocosearch_index.records import Float32, SearchSettings

_LEAST_VARIANCE = 1e-6  # added when whitening: directions in which nothing varies are not blown up without bound


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A vector v (dim,) becomes the unit vector along matrix @ v + offset, of `matrix` (d, dim) and `offset` (d,)."""

    matrix: Float32
    offset: Float32

    @classmethod
    def fit(cls, vectors: Float32, settings: SearchSettings) -> Self | None:
        """Fit what `settings` ask for to `vectors` (n, dim); None: nothing is asked for, or n is too small to tell."""
        dim = vectors.shape[1]
        wanted = min(settings.dim or dim, dim)
        if not projects(settings) or len(vectors) < 2 * wanted:
            return None
        pca = faiss.PCAMatrix(dim, wanted, -0.5 if settings.whiten else 0)
        pca.epsilon = _LEAST_VARIANCE
        pca.train(vectors)
        return cls(faiss.vector_to_array(pca.A).reshape(wanted, dim), faiss.vector_to_array(pca.b))

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
