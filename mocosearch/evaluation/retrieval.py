"""Retrieval, leave-one-out: what share of the photos that a search shows is of the class searched for."""

import numpy as np
from numpy.typing import NDArray

from mocosearch.evaluation.inputs import checked_labels
from mocosearch.evaluation.neighbors import Neighbors, leave_one_out


def precision_at_k(vectors: NDArray[np.floating], labels: NDArray[np.integer], k: int = 10) -> float:
    """Return the mean share of the `k` nearest others (all, where fewer) that are of the photo's own class.

    `vectors` (n, dim), `labels` (n,). A class of fewer than k + 1 photos cannot reach 1.
    """
    return label_precision(leave_one_out(vectors, k), labels)


def label_precision(neighbors: Neighbors, labels: NDArray[np.integer]) -> float:
    """Return the mean share of neighbors that have the photo's own label."""
    classes = checked_labels(labels, len(neighbors.indices))
    return float(np.mean(classes[neighbors.indices] == classes[:, None]))


def chance_precision(labels: NDArray[np.integer]) -> float:
    """Return the precision of showing other photos at random, the same for every k; 0 for a single photo."""
    counts = np.bincount(checked_labels(labels, len(labels))).astype(np.float64)
    return float((counts * (counts - 1)).sum() / (len(labels) * max(1, len(labels) - 1)))
