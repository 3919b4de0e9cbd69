"""Figures of the first k photos that a search shows, one number a query, and what showing any photos would give.

`hits` (m, d) tells which of the first d shown are relevant, `relevant` (m,) how many there are among `gallery` photos.
"""

import numpy as np
from numpy.typing import NDArray

from mocosearch.evaluation.retrieval.relevance import Marks, Places

Float64 = NDArray[np.float64]


def precision(hits: Marks, k: int) -> Float64:
    """Return (m,) the share of relevant photos among the first k."""
    shares: Float64 = hits[:, :k].sum(axis=1) / k
    return shares


def recall(hits: Marks, relevant: Places, k: int) -> Float64:
    """Return (m,) the share of the relevant photos that is among the first k: the recall of information retrieval."""
    shares: Float64 = hits[:, :k].sum(axis=1) / relevant
    return shares


def hit_rate(hits: Marks, k: int) -> Float64:
    """Return (m,) 1 where one of the first k is relevant, else 0: the "Recall@K" of metric learning."""
    return np.asarray(hits[:, :k].any(axis=1), np.float64)


def average_precision(hits: Marks, relevant: Places, depth: int) -> Float64:
    """Return (m,) the average precision of the first `depth`; 1 when all that could be relevant among them is."""
    found = hits[:, :depth]
    precisions = found.cumsum(axis=1) / np.arange(1, found.shape[1] + 1)
    scores: Float64 = (precisions * found).sum(axis=1) / np.minimum(relevant, depth)
    return scores


def chance_precision(relevant: Places, gallery: int) -> Float64:
    """Return (m,) the expected precision of showing photos at random, for every k; also the expected R-precision."""
    return relevant / gallery


def chance_hit(relevant: Places, gallery: int, k: int) -> Float64:
    """Return (m,) how probable it is that k photos at random include a relevant one."""
    nth = np.arange(k)
    others = np.maximum(gallery - relevant[:, None] - nth, 0)
    chance: Float64 = 1 - (others / (gallery - nth)).prod(axis=1)
    return chance


def chance_average_precision(relevant: Places, gallery: int, depth: int) -> Float64:
    """Return (m,) the expected average precision of the first `depth` of a ranking at random (Bestgen 2015)."""
    depth = min(depth, gallery)
    also = (relevant - 1) / max(1, gallery - 1)  # that an earlier photo is relevant when the nth is
    harmonic = float((1 / np.arange(1, depth + 1)).sum())
    expected: Float64 = relevant / gallery * (harmonic * (1 - also) + depth * also) / np.minimum(relevant, depth)
    return expected
