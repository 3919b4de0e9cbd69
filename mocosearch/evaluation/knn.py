"""Weighted kNN: the protocol of InstDisc (Wu et al. 2018, section 3.4) and of MoCo's small-data demo.

The photos of the test part are named by their neighbors in the training part; without parts, each by all others.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from mocosearch.evaluation.examples import pick_examples
from mocosearch.evaluation.inputs import Labels, checked_labels
from mocosearch.evaluation.neighbors import Neighbors, nearest
from mocosearch.evaluation.outcome import Curve, Figure, Outcome
from mocosearch.evaluation.split import accuracy_of_guessing, queries_and_gallery

SHOWN = 10  # photos in the first rows of a page of results: precision@10
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200)  # of neighbors that vote, in the curve
_BLOCK_VOTES = 2**22  # photos x classes counted at once


def evaluate_knn(
    vectors: NDArray[np.floating],
    labels: NDArray[np.integer],
    held_out: NDArray[np.bool_] | None = None,
    *,
    k: int = 20,
    temperature: float = 0.07,
) -> Outcome:
    """Name each scored photo by a vote of its `k` nearest; a neighbor of cosine s votes with exp(s / temperature).

    `vectors` (n, dim), `labels` (n,), `held_out` (n,) the test part. The figures are the accuracy of the vote and
    precision@10, the share of the ten nearest that are of the photo's own class. A photo whose class
    nothing that is searched has counts as wrong. Unscorable for non-finite vectors, a single photo, an empty part.
    """
    if k < 1 or not temperature > 0:
        raise ValueError(f"k must be at least 1 and temperature positive, not {k} and {temperature}")
    classes = checked_labels(labels, len(vectors))
    queries, gallery = queries_and_gallery(len(vectors), held_out)
    neighbors = nearest(vectors, queries, gallery, max(k, *_COUNTS))
    voting, shown = neighbors.first(k), neighbors.first(SHOWN)
    own = classes[queries]
    right = _vote(voting, classes, temperature) == own
    hits = classes[shown.indices] == own[:, None]
    itself = int(held_out is None)  # a photo of the gallery that is searched with is not found
    findable = np.bincount(classes[gallery], minlength=len(classes))[own] - itself
    figures = (
        Figure(
            "kNN accuracy", float(right.mean()), chance_accuracy(labels, held_out), of_photos=right.astype(np.float64)
        ),
        Figure(
            f"precision@{SHOWN}",
            float(hits.mean()),
            float(np.mean(findable / (len(gallery) - itself))),  # of showing any others, the same for every k
            of_photos=hits.mean(axis=1),
        ),
    )
    facts = {
        "k": voting.indices.shape[1],  # fewer than asked for in a small set
        "temperature": temperature,
        "scored": len(queries),
        "searched": len(gallery),
        "classes": int(classes.max()) + 1,
        "alone": int(np.count_nonzero(findable == 0)),  # scored photos
    }
    return Outcome(
        "knn",
        figures,
        facts,
        (_curve(neighbors, classes, own, temperature),),
        pick_examples(queries, shown, hits, own),
        tuple(_notices(facts, k)),
    )


def chance_accuracy(labels: NDArray[np.integer], held_out: NDArray[np.bool_] | None = None) -> float:
    """Return what always naming the largest class of the gallery scores: the best that is done without looking."""
    queries, gallery = queries_and_gallery(len(labels), held_out)
    return accuracy_of_guessing(labels[gallery], labels[queries])


def _vote(neighbors: Neighbors, classes: Labels, temperature: float) -> Labels:
    """Return the class (m,) with most votes of the neighbors (m, k), of equal ones the lower."""
    winners = np.empty(len(neighbors.indices), dtype=np.int64)
    width = int(classes.max()) + 1
    rows = max(1, _BLOCK_VOTES // width)
    for start in range(0, len(winners), rows):
        block = slice(start, start + rows)
        scores, voters = neighbors.scores[block].astype(np.float64), classes[neighbors.indices[block]]
        # Only ratios within a row matter: the best neighbor votes with 1, so that no temperature overflows.
        weights = np.exp((scores - scores[:, :1]) / temperature)
        cells = np.arange(len(voters))[:, None] * width + voters
        votes = np.bincount(cells.ravel(), weights.ravel(), minlength=len(voters) * width)
        winners[block] = votes.reshape(len(voters), width).argmax(axis=1)
    return winners


def _curve(neighbors: Neighbors, classes: Labels, own: Labels, temperature: float) -> Curve:
    """Return the accuracy over the number of neighbors that vote."""
    counts = [count for count in _COUNTS if count <= neighbors.indices.shape[1]]
    accuracies = [np.mean(_vote(neighbors.first(count), classes, temperature) == own) for count in counts]
    return Curve(
        "kNN accuracy by the number of neighbors",
        "neighbors that vote",
        "accuracy",
        np.array(counts, dtype=np.float64),
        np.array(accuracies),
        log_x=True,
    )


def _notices(facts: Mapping[str, float], asked: int) -> Iterator[str]:
    if facts["classes"] == 1:
        yield "All photos are of one class: every encoder is always right."
    if alone := facts["alone"]:
        yield f"For {alone:,} of the scored photos there is no other of their class to be found, which counts as wrong."
    if facts["k"] < asked:
        yield f"Only {facts['k']:,} neighbors vote, not {asked:,}: there are no more."
