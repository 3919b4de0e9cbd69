"""The whole gallery ranked for every query, exactly and block by block: what retrieval figures are counted from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mocosearch.evaluation.inputs import Vectors
from mocosearch.evaluation.neighbors import Neighbors
from mocosearch.evaluation.retrieval.relevance import Marks, Places, Relevance

DEPTH = 100  # of the ranking that is kept: what a person would ever scroll through
RECALL_STEPS = 10  # precision is told at recall 0, .1, ... 1, as TREC does

_BLOCK_BYTES = 32 * 2**20  # of similarities: 310 rows of 27,000; all that is made of them takes ten times as much

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """How the gallery is ranked for each of m queries, itself left out, equal scores by lower place."""

    queries: Places  # (m,), ascending
    relevant: Places  # (m,), how many there are to find
    gallery: int  # how many photos are ranked
    shown: Neighbors  # (m, up to DEPTH), best first
    hits: Marks  # the same shape: which of them are relevant
    average_precision: Float64  # (m,), of the whole ranking
    r_precision: Float64  # (m,), share of relevant ones among as many first ones as there are relevant ones
    precision_at_recall: Float64  # (m, RECALL_STEPS + 1), interpolated: the best from that recall on


def rank(unit: Vectors, relevance: Relevance, queries: Places, gallery: Places) -> Ranking:
    """Rank `gallery` (g,) for `queries` (m,), places among the unit vectors (n, dim), by cosine.

    Every query must have something relevant in the gallery. Both ascend, and have all photos in common or none.
    """
    ranked = len(gallery) - int(np.isin(queries[:1], gallery).sum())  # a query is not shown itself
    depth = min(DEPTH, ranked)
    relevant = relevance.counts(queries, gallery)
    shown = Neighbors(np.empty((len(queries), depth), np.int64), np.empty((len(queries), depth), np.float32))
    hits = np.empty((len(queries), depth), np.bool_)
    average, r_precision = np.empty(len(queries)), np.empty(len(queries))
    at_recall = np.empty((len(queries), RECALL_STEPS + 1))
    candidates = unit if len(gallery) == len(unit) else unit[gallery]
    rows = max(1, _BLOCK_BYTES // (4 * len(gallery)))
    for start in range(0, len(queries), rows):
        block = slice(start, start + rows)
        similarity = unit[queries[block]] @ candidates.T
        similarity[queries[block, None] == gallery] = -np.inf  # ranked last, and cut off
        first, marks = _sorted(similarity, relevance.marks(queries[block], gallery), depth)
        marks = marks[:, :ranked]
        shown.indices[block] = gallery[first]
        shown.scores[block] = np.take_along_axis(similarity, first, axis=1)
        hits[block] = marks[:, :depth]
        average[block], r_precision[block], at_recall[block] = _scored(marks, relevant[block])
    return Ranking(queries, relevant, ranked, shown, hits, average, r_precision, at_recall)


def _sorted(similarity: NDArray[np.float32], marks: Marks, depth: int) -> tuple[Places, Marks]:
    """Sort the columns of `similarity` (rows, g) from high to low, ties by lower column.

    Return the first of them (rows, depth), and all of `marks` (rows, g) in that order. Score, column and mark become
    one whole number, and sorting such is several times as fast as a stable argsort.
    """
    bits = similarity.view(np.int32)
    bits = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)  # ordered as the scores are
    keys = bits.astype(np.int64) * -(2**32)
    keys += np.arange(similarity.shape[1]) << 1
    keys += marks
    keys.sort(axis=1)
    return (keys[:, :depth] & 0xFFFFFFFF) >> 1, (keys & 1).astype(np.bool_)


def _scored(marks: Marks, relevant: Places) -> tuple[Float64, Float64, Float64]:
    """Return average precision and R-precision (rows,), and precision at recall, of ranked `marks` (rows, g)."""
    row, place = np.nonzero(marks)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(relevant) - relevant, relevant)  # 0 .. of its row
    precision = np.zeros((len(relevant), int(relevant.max())))  # where each relevant one is found; 0 behind the last
    precision[row, nth] = (nth + 1) / (place + 1)
    early = np.bincount(row[place < relevant[row]], minlength=len(relevant))
    best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    needed = -(-np.arange(RECALL_STEPS + 1) * relevant[:, None] // RECALL_STEPS)  # found, for that recall; rounded up
    at_recall = np.take_along_axis(best, np.maximum(needed - 1, 0), axis=1)
    return precision.sum(axis=1) / relevant, early / relevant, at_recall
