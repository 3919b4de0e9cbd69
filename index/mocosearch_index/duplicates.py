"""Near-duplicates among unit vectors, block by block, so that no table of all pairs ever exists.

How alike two rows are depends on where they lie: among a thousand pictures of water a cosine of 0.95 says little. So
the distance of two rows (1 - cosine) is measured by that of the tenth nearest row, and likeness is 1 for the same
vector, and 0 for two rows that are no nearer than that. (Local scaling: Zelnik-Manor and Perona, Self-tuning spectral
clustering, 2004; here by the smaller of the two rows' scales, so that a pair has to stand out from both sides.)

Groups are stars: the rows come in the order in which their photos would be kept, and every row that is not in a
group yet takes all later rows that are like it. So each member is like the one that is kept. Chains (a like b, b like
c, a unlike c) do not grow together, as they would if groups were everything that is connected.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mocosearch_index.records import Float32
from mocosearch_index.search.projection import FEWEST, Projection

Float16 = NDArray[np.float16]
Int64 = NDArray[np.int64]
OtherViews = Callable[[Int64], Float32]  # rows (r,) -> unit vectors (r, views, dim); zeros where there is no view

NEVER = 2.0  # a threshold above every likeness
_NEIGHBOR = 10  # whose distance is the scale: up to ten copies of a photo do not hide each other
_LEAST = 0.1  # scale, or a dozen copies would hide each other, and what float16 rounds off count
_FITTED = 20_000  # rows, at most
_FLOOR = 0.01  # of the largest variance: less than for searches, for copies differ in what hardly varies among photos
_ROWS = 1024  # compared at once with all others
_COLUMNS = 8192
_MARKS = 1 << 27  # bytes for the marks of a block


class Spreading:
    """Takes from vectors what all of them share and evens out their variance, so that copies stand out.

    Outputs of a network crowd around their mean: any two photos may have a cosine of 0.9. Centered, whitened (with
    a hundredth of the largest variance added to all, for less would only raise noise) and scaled to unit length again,
    different photos come near 0. Fewer than 50 vectors, or equal ones, stay as they are.
    """

    def __init__(self, vectors: Float16) -> None:
        """Fit to unit rows (n, dim), of which 20,000 are enough."""
        places = np.linspace(0, len(vectors) - 1, min(len(vectors), _FITTED)).astype(np.int64)
        few = len(vectors) < FEWEST
        self._projection = None if few else Projection.learn(vectors[places].astype(np.float32), None, _FLOOR)

    def __call__(self, vectors: Float32) -> Float32:
        """Return unit rows (n, dim) for unit rows (n, dim)."""
        return vectors if self._projection is None else self._projection.apply(vectors)

    def all(self, vectors: Float16) -> Float16:
        """Do it to many rows, in place."""
        for start in range(0, len(vectors), _COLUMNS):
            vectors[start : start + _COLUMNS] = self(vectors[start : start + _COLUMNS].astype(np.float32))
        return vectors


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays have no single truth value
class Star:
    """A row and the later rows that are like it."""

    center: int
    members: Int64  # (m,), ascending
    scores: Float32  # (m,), likeness to the center, or to the view of it that is nearest
    views: Int64  # (m,), 0: as the center is stored; v: as the v-th of its other views, counted from 1


def scales_of(queries: Float32, vectors: Float16, own: Int64 | None = None) -> Float32:
    """Return how far the tenth nearest of `vectors` (n, dim) is from unit `queries` (q, dim), at most 1.

    Row `own[i]` is left out for query i. It is 1, and likeness the cosine, where there are no ten others.
    """
    nowhere = np.full(len(queries), -1, np.int64)
    cosines, _ = nearest_others(queries, nowhere if own is None else own, vectors, _NEIGHBOR)
    return (1 - cosines[:, -1]).clip(_LEAST, 1)


def all_scales(vectors: Float16, progress: Callable[[int], None] = lambda rows: None) -> Float32:
    """Return the scale (n,) of each of many unit rows (n, dim)."""
    scales = np.empty(len(vectors), np.float32)
    for first in range(0, len(vectors), _ROWS):
        rows = np.arange(first, min(first + _ROWS, len(vectors)))
        scales[rows] = scales_of(vectors[rows].astype(np.float32), vectors, rows)
        progress(first + len(rows))
    return scales


def likeness(cosines: Float32, one: Float32, other: Float32) -> Float32:
    """Return how alike rows with these cosines and scales are; all shapes broadcast."""
    return np.asarray(1 - (1 - cosines) / np.minimum(one, other), np.float32)


def stars(
    vectors: Float16,
    scales: Float32,
    threshold: float,
    other_views: OtherViews | None = None,
    view_threshold: float = NEVER,
    progress: Callable[[int], None] = lambda rows: None,
) -> Iterator[Star]:
    """Yield the stars among unit rows (n, dim) with their `scales` (n,), ordered by preference.

    A row is like another when their likeness reaches `threshold`, or when that of one of its other views, which have
    its scale, reaches `view_threshold`. `other_views` is asked for a block of rows at a time, and never for rows that
    are in a star.
    """
    count = len(vectors)
    free = np.ones(count, bool)
    at_once = max(1, min(_ROWS, _MARKS // (2 * count + 1)))
    for first in range(0, count, at_once):
        rows = first + np.flatnonzero(free[first : first + at_once])
        views = np.empty((len(rows), 0, vectors.shape[1]), np.float32) if other_views is None else other_views(rows)
        upright, viewed = _marks(vectors, scales, first, rows, views, (threshold, view_threshold))
        for place, row in enumerate(rows):
            if free[row]:
                free[row] = False
                members = first + np.flatnonzero((upright[place] | viewed[place]) & free[first:])
                free[members] = False
                if len(members):
                    as_stored = upright[place, members - first]
                    yield _star(vectors, scales, int(row), views[place], members, as_stored)
        progress(min(count, first + at_once))


def _marks(
    vectors: Float16, scales: Float32, first: int, rows: Int64, views: Float32, thresholds: tuple[float, float]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark which of the vectors from `first` on each of `rows` is like: as it is stored, and by its other views."""
    shape = len(rows), len(vectors) - first
    upright, viewed = np.zeros(shape, bool), np.zeros(shape, bool)
    own = vectors[rows].astype(np.float32)
    for start in range(0, shape[1], _COLUMNS):
        part = slice(start, start + _COLUMNS)
        others = vectors[first:][part].astype(np.float32).T
        scale = np.minimum(scales[rows, None], scales[first:][part])
        least, least_viewed = (1 - (1 - threshold) * scale for threshold in thresholds)  # cosines: likeness, solved
        upright[:, part] = own @ others >= least
        for view in range(views.shape[1]):
            viewed[:, part] |= views[:, view] @ others >= least_viewed
    return upright, viewed


def _star(
    vectors: Float16, scales: Float32, row: int, views: Float32, members: Int64, as_stored: NDArray[np.bool_]
) -> Star:
    all_views = np.concatenate([vectors[row : row + 1].astype(np.float32), views])
    scores = likeness(all_views @ vectors[members].astype(np.float32).T, scales[row], scales[members])
    scores[0, ~as_stored] = -np.inf
    scores[1:, as_stored] = -np.inf
    best = scores.max(axis=0).clip(-1, 1)  # float16 rounds a little past 1
    return Star(row, members, best, scores.argmax(axis=0))


def nearest_others(queries: Float32, own: Int64, vectors: Float16, k: int) -> tuple[Float32, Int64]:
    """Return cosines and rows (q, k) of the nearest of `vectors` (n, dim) to unit `queries` (q, dim), best first.

    Row `own[i]` is left out for query i, none if it is -1. Where there are fewer than k others, the cosine is -inf and
    the row -1.
    """
    best = np.full((len(queries), k), -np.inf, np.float32)
    rows = np.full((len(queries), k), -1, np.int64)
    for start in range(0, len(vectors), _COLUMNS):
        block = vectors[start : start + _COLUMNS].astype(np.float32)
        scores = queries @ block.T
        mine = np.flatnonzero((own >= start) & (own < start + len(block)))
        scores[mine, own[mine] - start] = -np.inf
        places = np.argpartition(scores, -min(k, len(block)), axis=1)[:, -k:]
        scores = np.concatenate([best, np.take_along_axis(scores, places, 1)], axis=1)
        places = np.concatenate([rows, start + places], axis=1)
        top = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best, rows = np.take_along_axis(scores, top, 1), np.take_along_axis(places, top, 1)
    rows[np.isneginf(best)] = -1
    return best, rows
