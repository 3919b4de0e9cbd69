"""The figures that `mocosearch eval` prints, put together: a value, how far to trust it, and what chance gives."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mocosearch.evaluation.intervals import wilson_interval
from mocosearch.evaluation.knn import chance_accuracy, vote_accuracy
from mocosearch.evaluation.neighbors import leave_one_out
from mocosearch.evaluation.retrieval import chance_precision, label_precision

SHOWN = 10  # photos in the first rows of a page of results: precision@10


@dataclass(frozen=True, slots=True)
class KnnResult:
    """Leave-one-out figures of one set of vectors."""

    accuracy: float  # weighted vote of the k nearest others
    interval: tuple[float, float]  # of the accuracy, 95%, Wilson
    chance: float
    precision_at_10: float
    chance_precision: float
    k: int  # those that voted: fewer than asked for in a small set
    alone: int  # photos that are the only one of their class, and so count as wrong


def evaluate_knn(vectors: NDArray[np.floating], labels: NDArray[np.int64], *, k: int = 20) -> KnnResult:
    """Score `vectors` (n, dim) with `labels` (n,): the neighbors are searched for once, for both figures."""
    neighbors = leave_one_out(vectors, max(k, SHOWN))
    voting = neighbors.first(k)
    accuracy = vote_accuracy(voting, labels)
    return KnnResult(
        accuracy=accuracy,
        interval=wilson_interval(accuracy, len(labels)),
        chance=chance_accuracy(labels),
        precision_at_10=label_precision(neighbors.first(SHOWN), labels),
        chance_precision=chance_precision(labels),
        k=voting.indices.shape[1],
        alone=int(np.count_nonzero(np.unique(labels, return_counts=True)[1] == 1)),
    )
