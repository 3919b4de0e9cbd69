"""The ladder of search structures, each a FAISS index over unit vectors: exact, lists of cells, compressed lists.

Exact is float16 throughout. Lists visit only the cells nearest to the query. Compressed lists hold 4 bits a number
(RaBitQ) and estimate cosines: whoever searches them ranks the candidates again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import faiss
import numpy as np
from numpy.typing import NDArray

from mocosearch_index.records import Float32, SearchLevel

Int64 = NDArray[np.int64]
Found = tuple[Float32, Int64]  # scores and ids (q, up to k), best first; the id is -1 where there is none

_BITS = 4  # of a number in compressed lists: 284 bytes a vector of 512
_QUERY_BITS = 8  # of the query against them; the scores of float queries are no better, and 30 times slower
_ID_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Which ids a search may find: those of `only` (all: None) without those of `exclude`."""

    only: Int64 | None
    exclude: Int64

    def size(self, count: int) -> int:
        """Return how many of `count` vectors pass, or a few more."""
        return count if self.only is None else min(count, len(self.only))

    def faiss(self) -> faiss.IDSelector | None:
        """Return the test for FAISS; None: everything passes."""
        if self.only is not None:
            wanted = np.zeros(int(self.only.max(initial=0)) + 1, bool)  # a bit an id: ids are dense
            wanted[self.only] = True
            wanted[self.exclude[(self.exclude >= 0) & (self.exclude < len(wanted))]] = False
            chosen: faiss.IDSelector = _call(faiss.IDSelectorBitmap, np.packbits(wanted, bitorder="little"))
            return chosen
        return faiss.IDSelectorNot(faiss.IDSelectorBatch(self.exclude)) if len(self.exclude) else None


class ExactLevel:
    """The inner product with every vector."""

    level: SearchLevel = "exact"

    def __init__(self, index: faiss.IndexIDMap) -> None:
        self.index = index

    @classmethod
    def fill(cls, dim: int, ids: Int64, blocks: Iterator[tuple[slice, NDArray[np.floating]]]) -> Self:
        """Make it of `ids` (n,) and their vectors, which come in `blocks` (part, (m, dim)).

        What FAISS stores is the bytes of the float16 numbers, so they are put there without a float32 copy, in place.
        """
        flat = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        index = faiss.IndexIDMap(flat)
        flat.codes.resize(len(ids) * flat.code_size)
        codes = faiss.rev_swig_ptr(flat.codes.data(), len(ids) * flat.code_size) if len(ids) else np.empty(0, np.uint8)
        numbers = codes.view(np.float16).reshape(len(ids), dim)
        for part, vectors in blocks:
            numbers[part] = vectors
        faiss.copy_array_to_vector(ids, index.id_map)
        flat.ntotal = index.ntotal = len(ids)
        return cls(index)

    @property
    def bytes_a_vector(self) -> float:
        """How much memory a vector takes."""
        return 2 * self.index.d + _ID_BYTES

    def search(self, queries: Float32, k: int, selection: Selection) -> Found:
        """Return the k nearest that pass `selection`."""
        chosen = selection.faiss()
        params = None if chosen is None else _call(faiss.SearchParameters, sel=chosen)
        found: Found = self.index.search(queries, k, params=params)
        return found


class ListLevel:
    """Cells around centroids, of which `visited` are searched; more of them where a filter leaves few in each."""

    def __init__(self, index: faiss.Index, visited: int) -> None:
        """`index` is an IndexIVFScalarQuantizer, or an IndexPreTransform of an IndexIVFRaBitQ."""
        self.index = index
        self._compressed = isinstance(index, faiss.IndexPreTransform)
        self.level: SearchLevel = "compressed" if self._compressed else "ivf"
        self._lists = _call(faiss.downcast_index, faiss.extract_index_ivf(index))
        self.cells: int = self._lists.nlist
        self.visited = visited
        if self._compressed:
            self._lists.qb = _QUERY_BITS

    @classmethod
    def make(cls, centroids: Float32, visited: int, sample: Float32, *, compressed: bool) -> Self:
        """Make it without vectors, around unit `centroids` (cells, dim); `sample` (n, dim): for what FAISS trains."""
        cells, dim = centroids.shape
        rotation = _rotation(dim) if compressed else None
        quantizer = faiss.IndexFlatIP(dim)
        quantizer.add(centroids if rotation is None else rotation.apply(centroids))
        lists: faiss.IndexIVF
        if rotation is None:
            kind = faiss.ScalarQuantizer.QT_fp16
            lists = faiss.IndexIVFScalarQuantizer(quantizer, dim, cells, kind, faiss.METRIC_INNER_PRODUCT, False)
        else:
            lists = faiss.IndexIVFRaBitQ(quantizer, dim, cells, faiss.METRIC_INNER_PRODUCT, True, _BITS)
        index = lists if rotation is None else faiss.IndexPreTransform(rotation, lists)
        index.train(sample)
        return cls(index, visited)

    @property
    def visited(self) -> int:
        """How many cells a search visits."""
        return int(self._lists.nprobe)

    @visited.setter
    def visited(self, cells: int) -> None:
        self._lists.nprobe = cells

    @property
    def bytes_a_vector(self) -> float:
        """How much memory a vector takes, with its share of the centroids."""
        centroids = 4 * self.index.d * self.cells / max(1, self.index.ntotal)
        return int(self._lists.code_size) + _ID_BYTES + centroids

    def search(self, queries: Float32, k: int, selection: Selection) -> Found:
        """Return the k best that pass `selection`; scores of compressed lists are estimates."""
        chosen = selection.faiss()
        visited = self.visited
        if chosen is None:
            scores, ids = self.index.search(queries, k)
        else:
            passing = max(1, selection.size(self.index.ntotal)) / max(1, self.index.ntotal)
            visited = min(self.cells, math.ceil(visited / passing))
            scores, ids = self.index.search(queries, k, params=self._parameters(chosen, visited))
        short = ids[:, -1] < 0
        if short.any() and visited < self.cells:
            everywhere = self._parameters(chosen, self.cells)
            scores[short], ids[short] = self.index.search(queries[short], k, params=everywhere)
        return scores, ids

    def _parameters(self, chosen: faiss.IDSelector | None, visited: int) -> Any:
        if not self._compressed:
            return _call(faiss.SearchParametersIVF, sel=chosen, nprobe=visited)
        params = _call(faiss.IVFRaBitQSearchParameters, sel=chosen, nprobe=visited, qb=_QUERY_BITS)
        return _call(faiss.SearchParametersPreTransform, index_params=params)


def level_of(index: faiss.Index, visited: int | None) -> ExactLevel | ListLevel:
    """Return the level of the ladder that `index`, read from a file, is of."""
    if isinstance(index, faiss.IndexIDMap):
        return ExactLevel(index)
    assert visited is not None
    return ListLevel(index, visited)


def _call(function: Any, *arguments: object, **named: object) -> Any:
    return function(*arguments, **named)  # FAISS's type stubs know too little of what its Python layer takes and gives


def _rotation(dim: int) -> faiss.RandomRotationMatrix:
    # RaBitQ's bounds hold for vectors without favorite axes, and the numbers of an encoder have some.
    rotation = faiss.RandomRotationMatrix(dim, dim)
    rotation.init(1)
    return rotation
