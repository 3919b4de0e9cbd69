"""Weighted kNN, leave-one-out: the protocol of InstDisc (Wu et al. 2018) and of MoCo's small-data demo."""

import numpy as np
from numpy.typing import NDArray

from mocosearch.evaluation.inputs import checked_labels
from mocosearch.evaluation.neighbors import Neighbors, leave_one_out

_BLOCK_VOTES = 2**22  # photos x classes counted at once


def knn_accuracy(
    vectors: NDArray[np.floating], labels: NDArray[np.integer], *, k: int = 20, temperature: float = 0.07
) -> float:
    """Return the share of photos whose class wins the vote of their `k` nearest others.

    `vectors` (n, dim), `labels` (n,). A neighbor of cosine s votes with exp(s / temperature).
    """
    return vote_accuracy(leave_one_out(vectors, k), labels, temperature=temperature)


def vote_accuracy(neighbors: Neighbors, labels: NDArray[np.integer], *, temperature: float = 0.07) -> float:
    """Return the accuracy of the weighted vote; a photo that is alone in its class counts as wrong."""
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    count = len(neighbors.indices)
    classes = checked_labels(labels, count)
    predicted = np.empty(count, dtype=np.int64)
    rows = max(1, _BLOCK_VOTES // (int(classes.max()) + 1))
    for start in range(0, count, rows):
        block = slice(start, start + rows)
        predicted[block] = _vote(neighbors.scores[block], classes[neighbors.indices[block]], temperature)
    return float(np.mean(predicted == classes))


def chance_accuracy(labels: NDArray[np.integer]) -> float:
    """Return what always naming the largest class scores: the best that can be done without looking."""
    return float(np.bincount(checked_labels(labels, len(labels))).max() / len(labels))


def _vote(scores: NDArray[np.float32], classes: NDArray[np.int64], temperature: float) -> NDArray[np.int64]:
    """Return the class (rows,) with most votes, of equal ones the lower; both inputs (rows, k)."""
    # Only ratios within a row matter: the best neighbor votes with 1, so that no temperature overflows.
    weights = np.exp((scores.astype(np.float64) - scores[:, :1]) / temperature)
    width = int(classes.max()) + 1
    cells = np.arange(len(classes))[:, None] * width + classes
    votes = np.bincount(cells.ravel(), weights.ravel(), minlength=len(classes) * width)
    winners: NDArray[np.int64] = votes.reshape(len(classes), width).argmax(axis=1)
    return winners
