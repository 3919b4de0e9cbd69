"""How many cells, and how many of them to visit: found on the index's own vectors against exact search.

Memory and time are bounded: centroids are learned from a sample, and recall is measured with some hundred queries.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from mocosearch_index.records import Float32
from mocosearch_index.search.levels import Int64

NEIGHBORS = 10
QUERIES = 400  # 4,000 neighbors: the share that is found is known to some tenths of a percent
_ITERATIONS = 6
_SEED = 1
_FINER = (1, 2)  # cells, as multiples of the square root of the number of vectors
_TIE = 1e-4  # a photo nearly as near as the tenth is as good: copies have no order, and float16 rounds


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What exact search finds: of each query the ids and scores (q, 10) of its nearest others, best first."""

    ids: Int64
    scores: Float32

    @classmethod
    def of(
        cls, queries: Float32, own: Int64, ids: Int64, blocks: Iterator[tuple[slice, NDArray[np.floating]]]
    ) -> "Truth":
        """Search all vectors, which come in `blocks` under `ids`; `own` (q,): the ids of the queries themselves."""
        heap = faiss.ResultHeap(len(queries), NEIGHBORS + 1, keep_max=True)
        for part, vectors in blocks:
            block = np.ascontiguousarray(vectors, np.float32)
            k = min(NEIGHBORS + 1, len(block))
            scores, places = faiss.knn(queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)
            heap.add_result(scores, ids[part][places])
        heap.finalize()
        return cls(*without_own(heap.I, heap.D, own))

    def recall(self, ids: Int64, scores: Float32) -> float:
        """Return the share of the true neighbors that a search found, of `ids` and `scores` (q, 10)."""
        right = (ids[:, :, None] == self.ids[:, None, :]).any(axis=2) | (scores >= self.scores[:, -1:] - _TIE)
        return float((right & (ids >= 0)).mean())


def without_own(ids: Int64, scores: Float32, own: Int64) -> tuple[Int64, Float32]:
    """Return what was found (q, 11) without the queries themselves, or without the last of it: (q, 10)."""
    keep = ids != own[:, None]
    keep[keep.all(axis=1), -1] = False
    return ids[keep].reshape(len(ids), -1), scores[keep].reshape(len(ids), -1)


def choose_cells(
    sample: Float32, queries: Float32, neighbors: Float32, count: int, target: float
) -> tuple[Float32, int]:
    """Return centroids (cells, d), and how many cells to visit so that `target` of the `neighbors` are found.

    `neighbors` (q, 10, d) are the vectors of what exact search finds. A neighbor is found when its cell is visited, so
    the vectors need not be in their cells to tell. Of the numbers of cells the one that compares least numbers wins.
    """
    best: tuple[float, Float32, int] | None = None
    for finer in _FINER:
        cells = min(finer * 2 ** round(np.log2(count) / 2), len(sample))
        centroids = _centroids(sample, cells)
        ranks = np.empty((len(queries), cells), np.int64)
        order = np.argsort(-(queries @ centroids.T), axis=1)
        np.put_along_axis(ranks, order, np.arange(cells)[None], 1)
        places = np.take_along_axis(ranks, _nearest(neighbors, centroids), 1)
        visited = int(np.sort(places, axis=None)[int(np.ceil(target * places.size)) - 1]) + 1
        sizes = np.bincount(_nearest(sample, centroids), minlength=cells) * (count / len(sample))
        cost = cells + float(sizes[order[:, :visited]].sum(axis=1).mean())
        if best is None or cost < best[0]:
            best = cost, centroids, visited
    assert best is not None
    return best[1], best[2]


def _centroids(sample: Float32, cells: int) -> Float32:
    """Return unit centroids (cells, d) of the sample; on GPUs where FAISS sees some (not yet verified on one)."""
    clustering = faiss.Clustering(sample.shape[1], cells)
    clustering.niter, clustering.seed, clustering.spherical = _ITERATIONS, _SEED, True
    clustering.min_points_per_centroid = 1  # FAISS would only print a warning
    clustering.max_points_per_centroid = len(sample)
    index = faiss.IndexFlatIP(sample.shape[1])
    clustering.train(sample, faiss.index_cpu_to_all_gpus(index) if faiss.get_num_gpus() else index)
    return faiss.vector_to_array(clustering.centroids).reshape(cells, -1)


def _nearest(vectors: Float32, centroids: Float32) -> Int64:
    """Return the cell (...) of each of `vectors` (..., d)."""
    flat = np.ascontiguousarray(vectors.reshape(-1, vectors.shape[-1]))
    _, cells = faiss.knn(flat, centroids, 1, metric=faiss.METRIC_INNER_PRODUCT)
    nearest: Int64 = cells.reshape(vectors.shape[:-1])
    return nearest
