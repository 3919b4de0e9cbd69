"""The nearest photos by cosine, exact and blockwise: what kNN and retrieval figures are counted from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.inputs import unit_vectors

_BLOCK_BYTES = 64 * 2**20  # of similarities: 600 rows of 27,000, large enough for a fast matrix product


@dataclass(frozen=True, slots=True, eq=False)
class Neighbors:
    """The nearest of each of m photos, best first, equal ones by lower place."""

    indices: NDArray[np.int64]  # (m, k), places in the whole list of photos
    scores: NDArray[np.float32]  # (m, k), cosine

    def first(self, k: int) -> "Neighbors":
        """Only the `k` nearest."""
        return Neighbors(self.indices[:, :k], self.scores[:, :k])


def leave_one_out(vectors: NDArray[np.floating], k: int) -> Neighbors:
    """Find the `k` nearest others of each row of `vectors` (n, dim): see `nearest`."""
    everybody = np.arange(len(vectors))
    return nearest(vectors, everybody, everybody, k)


def nearest(vectors: NDArray[np.floating], queries: NDArray[np.int64], gallery: NDArray[np.int64], k: int) -> Neighbors:
    """Find the `k` nearest photos of the gallery to each query, or as many as every query has; never itself.

    `vectors` (n, dim); `queries` (m,) and `gallery` (g,) are places in it, the gallery's ascending.
    Raises ValueError for k < 1, Unscorable for non-finite vectors and where a query has nothing to find.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    unit = unit_vectors(vectors)
    own = np.full(len(unit), -1)  # a photo's column in the gallery
    own[gallery] = np.arange(len(gallery))
    own = own[queries]
    others = len(gallery) - int(bool((own >= 0).any()))
    if others < 1:
        raise Unscorable(f"Neighbors need at least 2 photos, here {len(unit)}: add photos to the folder.")
    k = min(k, others)
    searched = unit if len(gallery) == len(unit) else unit[gallery]
    indices = np.empty((len(queries), k), dtype=np.int64)
    scores = np.empty((len(queries), k), dtype=np.float32)
    rows = max(1, _BLOCK_BYTES // (4 * len(gallery)))
    for start in range(0, len(queries), rows):
        block = slice(start, start + rows)
        similarity = unit[queries[block]] @ searched.T  # (rows, g)
        inside = np.flatnonzero(own[block] >= 0)
        similarity[inside, own[block][inside]] = -np.inf
        columns = _best(similarity, k)
        indices[block] = gallery[columns]
        scores[block] = np.take_along_axis(similarity, columns, axis=1)
    return Neighbors(indices, scores)


def _best(similarity: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the columns (rows, k) of the largest values, best first, ties by lower column."""
    columns = similarity.shape[1]
    best = np.sort(np.argpartition(similarity, columns - k, axis=1)[:, columns - k :], axis=1)
    values = np.take_along_axis(similarity, best, axis=1)
    kth = values.min(axis=1, keepdims=True)
    # argpartition takes any of those that tie for the last places: choose again where more than k qualify.
    for row in np.flatnonzero(np.count_nonzero(similarity >= kth, axis=1) > k):
        candidates = np.flatnonzero(similarity[row] >= kth[row])
        best[row] = np.sort(candidates[np.argsort(-similarity[row, candidates], kind="stable")[:k]])
        values[row] = similarity[row, best[row]]
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1)
