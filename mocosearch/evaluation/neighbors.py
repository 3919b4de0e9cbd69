"""Leave-one-out neighbors by cosine, exact and blockwise: what kNN and retrieval figures are counted from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.inputs import unit_vectors

_BLOCK_BYTES = 64 * 2**20  # of similarities: 600 rows of 27,000, large enough for a fast matrix product


@dataclass(frozen=True, slots=True)
class Neighbors:
    """The nearest others of each of n photos, best first, equal ones by lower index."""

    indices: NDArray[np.int64]  # (n, k)
    scores: NDArray[np.float32]  # (n, k), cosine

    def first(self, k: int) -> "Neighbors":
        """Only the `k` nearest."""
        return Neighbors(self.indices[:, :k], self.scores[:, :k])


def leave_one_out(vectors: NDArray[np.floating], k: int) -> Neighbors:
    """Find the `k` nearest others (all others where there are fewer) of each row of `vectors` (n, dim).

    Raises ValueError for k < 1, Unscorable for non-finite vectors and for fewer than two.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    unit = unit_vectors(vectors)
    count = len(unit)
    if count < 2:
        raise Unscorable(f"Neighbors need at least 2 photos, here {count}: add photos to the folder.")
    k = min(k, count - 1)
    indices = np.empty((count, k), dtype=np.int64)
    scores = np.empty((count, k), dtype=np.float32)
    rows = max(1, _BLOCK_BYTES // (4 * count))
    for start in range(0, count, rows):
        similarity = unit[start : start + rows] @ unit.T  # (rows, n)
        own = np.arange(len(similarity))
        similarity[own, start + own] = -np.inf
        block = slice(start, start + len(similarity))
        indices[block] = _best(similarity, k)
        scores[block] = np.take_along_axis(similarity, indices[block], axis=1)
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
