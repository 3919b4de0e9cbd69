"""Making a search structure from the stored vectors: which level, and tuned to reach its recall."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mocosearch_index.catalog.catalog import Changes
from mocosearch_index.records import Float32, SearchLevel, SearchSettings
from mocosearch_index.search.levels import ExactLevel, Int64, ListLevel, Selection
from mocosearch_index.search.projection import Projection, enough, projects
from mocosearch_index.search.structure import Facts, SearchStructure, projected
from mocosearch_index.search.tuning import NEIGHBORS, QUERIES, Truth, choose_cells, without_own
from mocosearch_index.vectors import VectorFile

EXACT_UP_TO = 200_000  # photos: some 20 ms for a vector of 512 numbers
_SMALLEST_LISTS = 1000  # photos; cells of fewer are no use, whatever is asked for
_UNCOMPRESSED_BYTES = 2 << 30  # of memory; what takes more is compressed
_TARGET: dict[SearchLevel, float] = {"ivf": 0.99, "compressed": 0.95}  # recall@10
_CELLS_TARGET: dict[SearchLevel, float] = {"ivf": 0.99, "compressed": 0.97}  # compression loses some of it
_CANDIDATES = (2, 4, 8)
_SAMPLE_BYTES = 128 << 20
_FAISS_TRAINS_WITH = 4096  # vectors, for what is left to train once there are centroids: next to nothing
_OUTGROWN = 2  # times what it was made for
_NO_IDS = np.empty(0, np.int64)


def level_for(count: int, dim: int, settings: SearchSettings) -> SearchLevel:
    """Return the level for `count` photos of which `dim` numbers are searched."""
    if count < _SMALLEST_LISTS:
        return "exact"
    if settings.level is not None:
        return settings.level
    if count <= EXACT_UP_TO:
        return "exact"
    return "ivf" if count * 2 * dim <= _UNCOMPRESSED_BYTES else "compressed"


def fits(structure: SearchStructure, dim: int, settings: SearchSettings) -> bool:
    """Tell whether `structure` is what `settings` ask for, for as many vectors (of `dim` numbers) as are in it now."""
    count, facts = structure.count, structure.facts
    if facts.settings != settings:
        return False
    searched = min(settings.dim or dim, dim)
    # A collection that swings about a border keeps the level above it.
    if structure.level not in (level_for(count, searched, settings), level_for(_OUTGROWN * count, searched, settings)):
        return False
    if projects(settings) and enough(count, settings) and not enough(facts.made_for, settings):
        return False
    return not structure.learned or count <= _OUTGROWN * facts.made_for


def make_exact(vectors: VectorFile, photos: Changes, settings: SearchSettings) -> SearchStructure:
    """Return exact search over all `photos`, in little time: for whoever finds no file."""
    projection = Projection.fit(_sample(vectors, photos.rows)[1], settings) if projects(settings) else None
    facts = Facts(settings, made_for=len(photos.ids))
    dim = projection.dim if projection else vectors.dim
    return SearchStructure(ExactLevel.fill(dim, photos.ids, _all(vectors, photos, projection)), projection, facts)


def make(vectors: VectorFile, photos: Changes, settings: SearchSettings) -> SearchStructure:
    """Return the structure for all `photos`, learned from a sample of them and tuned; DamagedIndex."""
    count = len(photos.ids)
    level = level_for(count, min(settings.dim or vectors.dim, vectors.dim), settings)
    if level == "exact":
        return make_exact(vectors, photos, settings)
    places, raw = _sample(vectors, photos.rows)
    projection = Projection.fit(raw, settings)
    sample = projection.apply(raw) if projection else raw
    asked = np.random.default_rng(0).choice(len(sample), min(QUERIES, len(sample)), replace=False)
    own = photos.ids[places[asked]]
    truth = Truth.of(sample[asked], own, photos.ids, _all(vectors, photos, projection))
    neighbors = _stored(vectors, photos, truth.ids, projection)
    centroids, visited = choose_cells(sample, sample[asked], neighbors, count, _CELLS_TARGET[level])
    few = sample[:_FAISS_TRAINS_WITH]
    lists = ListLevel.make(centroids, visited, few, compressed=level == "compressed")
    structure = SearchStructure(lists, projection, Facts(settings, made_for=count, visited=visited))
    queries = raw[asked][:, None]
    del raw, sample
    for part, block in vectors.blocks(photos.rows):
        structure.add(photos.ids[part], photos.rows[part], block)
    _tune(structure, lists, vectors, queries, own, truth)
    return structure


def _tune(
    structure: SearchStructure, lists: ListLevel, vectors: VectorFile, queries: Float32, own: Int64, truth: Truth
) -> None:
    """Measure the recall, and visit more cells until the level's target is reached."""
    nobody, nothing = Selection(None, _NO_IDS), np.empty((len(queries), 0, vectors.dim), np.float32)
    while True:
        for candidates in _CANDIDATES if lists.level == "compressed" else (1,):
            structure.facts = replace(structure.facts, candidates=candidates)
            scores, ids = structure.search(queries, nothing, NEIGHBORS + 1, nobody, vectors.read)
            recall = truth.recall(*without_own(ids, scores, own))
            structure.facts = replace(structure.facts, recall_at_10=recall, visited=lists.visited)
            if recall >= _TARGET[lists.level]:
                return
        if lists.visited == lists.cells:
            return
        lists.visited = min(lists.cells, lists.visited + max(1, lists.visited // 2))


def _sample(vectors: VectorFile, rows: Int64) -> tuple[Int64, Float32]:
    """Return places in `rows`, ascending, and the vectors there (n, dim): all, or as many as memory allows."""
    most = _SAMPLE_BYTES // (4 * vectors.dim)
    places = np.arange(len(rows))
    if len(rows) > most:
        places = np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))
    sample = np.empty((len(places), vectors.dim), np.float32)
    for part, block in vectors.blocks(rows[places]):
        sample[part] = block
    return places, sample


def _all(
    vectors: VectorFile, photos: Changes, projection: Projection | None
) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    return projected(vectors.blocks(photos.rows), projection)


def _stored(vectors: VectorFile, photos: Changes, ids: Int64, projection: Projection | None) -> Float32:
    """Return the vectors (..., d) of `ids` (...), projected."""
    order = np.argsort(photos.ids)
    rows = photos.rows[order[np.searchsorted(photos.ids, ids.ravel(), sorter=order)]]
    stored = vectors.read(rows).astype(np.float32)
    if projection is not None:
        stored = projection.apply(stored)
    return stored.reshape(*ids.shape, -1)
