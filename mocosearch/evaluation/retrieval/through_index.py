"""What a real index shows: the vectors stored as those of a library are, searched as a person set it, then deleted.

Its figures stand beside those of exact search over the same photos, so that is seen what float16, cells and compression
lose, and what a projection loses or gains.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import BadSettings
from mocosearch.evaluation.inputs import Vectors
from mocosearch.evaluation.outcome import Figure
from mocosearch.evaluation.retrieval import first_k
from mocosearch.evaluation.retrieval.ranking import DEPTH, Ranking
from mocosearch.evaluation.retrieval.relevance import Marks, Places, Relevance
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import (
    EmbeddedPhoto,
    EncoderIdentity,
    FileStamp,
    IndexSettings,
    SearchReport,
    SearchSettings,
)

_SHOWN = 10  # photos that a search shows first
_MOST_COMPARED = 150e6  # vectors, one query after the other: a minute of one core for 2,048 numbers
_COMMIT = 1000  # vectors
_ASKED_AT_ONCE = 256
_TIE = 1e-4  # a photo nearly as near as the last wanted one is as good: copies have no order, and float16 rounds

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What an index showed, and what it was."""

    places: Places  # (m, k), best first; -1: nothing more was found
    report: SearchReport


def index_figures(
    unit: Vectors, relevance: Relevance, ranking: Ranking, gallery: Places, settings: SearchSettings
) -> tuple[list[Figure], Shown]:
    """Score what an index over `gallery` (g,) of the unit vectors (n, dim) shows for the queries of `ranking`.

    Beside each figure stands its difference to the exact one, taken photo by photo: negative is what the index loses.
    Where all queries would take long, some are asked, evenly spaced. Raises what `ask_index` does.
    """
    most = max(1, int(_MOST_COMPARED / len(gallery)))  # the same for all encoders, which are compared photo by photo
    asked = np.linspace(0, len(ranking.queries) - 1, min(most, len(ranking.queries))).round().astype(np.int64)
    queries, relevant = ranking.queries[asked], ranking.relevant[asked]
    answer = ask_index(unit, queries, gallery, settings, min(DEPTH, ranking.gallery))
    hits = np.empty(answer.places.shape, np.bool_)
    for block in _blocks(len(queries)):
        hits[block] = relevance.marks(queries[block], answer.places[block]) & (answer.places[block] >= 0)
    k = min(_SHOWN, ranking.gallery)
    recall = recall_of_nearest(unit, queries, ranking.shown.scores[asked, k - 1], answer.places[:, :k])
    scores: dict[str, tuple[Callable[[Marks], Float64], Float64]] = {
        f"precision@{k}": (
            lambda marks: first_k.precision(marks, k),
            first_k.chance_precision(relevant, ranking.gallery),
        ),
        f"hit@{k}": (lambda marks: first_k.hit_rate(marks, k), first_k.chance_hit(relevant, ranking.gallery, k)),
        f"mAP@{DEPTH}": (
            lambda marks: first_k.average_precision(marks, relevant, DEPTH),
            first_k.chance_average_precision(relevant, ranking.gallery, DEPTH),
        ),
    }
    figures = [Figure(f"index recall@{k}", float(recall.mean()), k / ranking.gallery, of_photos=recall)]
    for name, (score, chance) in scores.items():
        found = score(hits)
        gain = found - score(ranking.hits[asked])
        figures.append(Figure(f"index {name}", float(found.mean()), float(chance.mean()), of_photos=found))
        figures.append(Figure(f"index {name} - exact", float(gain.mean()), of_photos=gain, is_difference=True))
    return figures, answer


def check_settings(settings: SearchSettings, dim: int) -> None:
    """Raise BadSettings when vectors of `dim` numbers cannot be searched so."""
    if settings.dim is not None and not 1 <= settings.dim <= dim:
        raise BadSettings(f"An encoder gives {dim} numbers: name a --dim from 1 to {dim}, not {settings.dim}.")


def ask_index(unit: Vectors, queries: Places, gallery: Places, settings: SearchSettings, k: int) -> Shown:
    """Put `gallery` (g,) of the unit vectors (n, dim) into an index and ask it for the k nearest of `queries` (m,).

    A query is not shown itself. A zero vector is neither stored nor finds anything, as in a library.
    Raises BadSettings, DiskFull and NotWritable for the folder of temporary files.
    """
    dim = unit.shape[1]
    check_settings(settings, dim)
    with tempfile.TemporaryDirectory(prefix="mocosearch-evaluation-") as folder:
        encoder = EncoderIdentity("evaluation", dim, "evaluation")
        with ImageIndex.create(Path(folder) / "index", root=folder, encoder=encoder) as index:
            index.set_settings(IndexSettings(search=settings))
            _fill(index, unit, gallery[unit[gallery].any(axis=1)])
            index.save_search_file()
            return Shown(_ask(index, unit, queries, k), index.search_report())


def recall_of_nearest(unit: Vectors, queries: Places, least: NDArray[np.float32], shown: Places) -> Float64:
    """Return (m,) the share of `shown` (m, k) whose cosine with `queries` (m,) is at least that of the kth nearest.

    That cosine is `least` (m,). So the share is that of the k nearest which are shown, but of equally near photos
    any will do.
    """
    right = np.zeros(shown.shape, dtype=np.bool_)
    for block in _blocks(len(queries)):
        cosine = np.einsum("md,mkd->mk", unit[queries[block]], unit[shown[block]])
        right[block] = (cosine >= least[block, None] - _TIE) & (shown[block] >= 0)
    shares: Float64 = right.mean(axis=1)
    return shares


def _fill(index: ImageIndex, unit: Vectors, gallery: Places) -> None:
    """Commit the vectors under their places as paths, some at a time as an update does."""
    for start in range(0, len(gallery), _COMMIT):
        block = gallery[start : start + _COMMIT].tolist()
        index.commit(
            [EmbeddedPhoto(FileStamp(b"%d" % place, 0, 0), b"%d" % place, 1, 1, None, unit[place]) for place in block]
        )


def _ask(index: ImageIndex, unit: Vectors, queries: Places, k: int) -> Places:
    """Return the places (m, k) of what the index shows for each query, other than itself."""
    place_of = {file.id: int(path) for path, file in index.known().items()}
    shown = np.full((len(queries), k), -1)
    seeing = np.flatnonzero(unit[queries].any(axis=1))
    for block in _blocks(len(seeing)):
        for row, found in zip(seeing[block], index.search(unit[queries[seeing[block]]], k + 1), strict=True):
            others = [place for place in (place_of[photo] for photo, _ in found) if place != queries[row]]
            shown[row, : min(k, len(others))] = others[:k]
    return shown


def _blocks(count: int) -> list[slice]:
    return [slice(start, start + _ASKED_AT_ONCE) for start in range(0, count, _ASKED_AT_ONCE)]
