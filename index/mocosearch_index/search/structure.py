"""What searches: a level of the ladder over projected vectors, and what it was made for.

Scores that leave it are true cosines of the projected vectors, whatever the level.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from mocosearch_index.records import Float32, SearchLevel, SearchReport, SearchSettings
from mocosearch_index.search.levels import ExactLevel, Found, Int64, ListLevel, Selection
from mocosearch_index.search.projection import Projection
from mocosearch_index.vectors import Float16

ReadRows = Callable[[Int64], Float16]

_NOTHING_LEFT = 1e-3  # length of a query; no two photos are as near as that
_FEW = 1000  # so many compressed candidates of a filter are all ranked by their true cosines


@dataclass(frozen=True, slots=True)
class Facts:
    """What a structure was made for, and what came of it; kept with it."""

    settings: SearchSettings
    made_for: int  # vectors there were
    visited: int | None = None  # cells of a search
    candidates: int = 1  # of compressed lists, ranked again for each neighbor that is wanted
    recall_at_10: float | None = None


class SearchStructure:
    """Searches may run in parallel, changes may not."""

    def __init__(
        self, level: ExactLevel | ListLevel, projection: Projection | None, facts: Facts, rows: Int64 | None = None
    ) -> None:
        """`rows`: of a compressed level, the row in the vector file of each id from 0 on."""
        self._level = level
        self.projection = projection
        self.facts = facts
        self.rows = np.empty(0, np.int64) if rows is None else rows

    @property
    def index(self) -> faiss.Index:
        """What FAISS searches and writes."""
        return self._level.index

    @property
    def level(self) -> SearchLevel:
        """Where on the ladder it is."""
        return self._level.level

    @property
    def learned(self) -> bool:
        """Whether making it takes longer than to read it: it has learned something from the vectors."""
        return self.level != "exact" or self.projection is not None

    @property
    def count(self) -> int:
        """How many vectors are in it."""
        return int(self.index.ntotal)

    def report(self) -> SearchReport:
        """Tell what it is and how well it does."""
        level = self._level
        cells = level.cells if isinstance(level, ListLevel) else None
        own_row = self.rows.itemsize if self.level == "compressed" else 0
        size = level.bytes_a_vector + own_row
        return SearchReport(
            level=self.level,
            count=self.count,
            dim=self.index.d,
            whitened=self.projection is not None and self.facts.settings.whiten,
            bytes_a_vector=size,
            recall_at_10=self.facts.recall_at_10,
            cells=cells,
            cells_visited=self.facts.visited,
        )

    def add(self, ids: Int64, rows: Int64, vectors: NDArray[np.floating]) -> None:
        """Add `vectors` (n, dim) of these rows under `ids` (n,), none of which may be there: FAISS would keep both."""
        self.index.add_with_ids(self._projected(vectors), ids)
        if self.level == "compressed" and len(ids):
            if ids.max() >= len(self.rows):
                self.rows = np.append(self.rows, np.full(int(ids.max()) + 1 - len(self.rows), -1))
            self.rows[ids] = rows

    def remove(self, ids: Int64) -> None:
        """Remove those of `ids` that are there."""
        if len(ids):
            self.index.remove_ids(faiss.IDSelectorBatch(ids))

    def search(self, like: Float32, unlike: Float32, k: int, selection: Selection, read: ReadRows) -> Found:
        """Return scores and ids (q, up to k) of the nearest that pass, best first; an id of -1 stands for none.

        Each query is made of examples `like` (q, m, dim), one at least, and `unlike` (q, l, dim): unit vectors, or
        zeros, which count for nothing. `read` gives the stored vectors of rows; DamagedIndex.
        """
        passing = selection.size(self.count)
        k = min(k, passing)
        if k == 0:  # FAISS refuses it
            return np.empty((len(like), 0), np.float32), np.empty((len(like), 0), np.int64)
        queries = self._mean(like) - self._mean(unlike)
        lengths = np.linalg.norm(queries, axis=1)
        queries /= np.maximum(lengths, _NOTHING_LEFT)[:, None]
        if self.level == "compressed":
            candidates = min(passing, k * self.facts.candidates) if passing > _FEW else passing
            _, ids = self._level.search(queries, candidates, selection)
            scores, ids = self._ranked(queries, ids, k, read)
        else:
            scores, ids = self._level.search(queries, k, selection)
        ids[lengths <= _NOTHING_LEFT] = -1
        return scores, ids

    def _ranked(self, queries: Float32, ids: Int64, k: int, read: ReadRows) -> Found:
        """Return the k best of the candidates `ids` (q, m) by the cosines of their stored vectors."""
        rows, places = np.unique(self.rows[ids[ids >= 0]], return_inverse=True)
        scores = np.full(ids.shape, -np.inf, np.float32)
        owners = np.nonzero(ids >= 0)[0]
        stored = self._projected(read(rows))
        for query, vector in enumerate(queries):
            own = places[owners == query]
            scores[query, ids[query] >= 0] = stored[own] @ vector
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, best, 1), np.take_along_axis(ids, best, 1)

    def _mean(self, examples: Float32) -> Float32:
        """Return the mean (q, d) of each query's `examples` (q, m, dim), each of which counts the same.

        That is taken after the projection, which moves the center of all photos to zero: what is left of one example
        less another has no center to be moved.
        """
        count, each, dim = examples.shape
        if each == 0:
            return np.zeros((count, self.index.d), np.float32)
        rows = self._projected(examples.reshape(-1, dim)).reshape(count, each, -1)
        mean: Float32 = (rows * examples.any(axis=2, keepdims=True)).mean(axis=1)
        return mean

    def _projected(self, vectors: NDArray[np.floating]) -> Float32:
        if self.projection is not None:
            return self.projection.apply(vectors)
        return np.ascontiguousarray(vectors, np.float32)


def projected(
    blocks: Iterator[tuple[slice, Float16]], projection: Projection | None
) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """Yield the blocks of a vector file projected, or as they are."""
    for part, vectors in blocks:
        yield part, vectors if projection is None else projection.apply(vectors)
