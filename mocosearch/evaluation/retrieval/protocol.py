"""Retrieval: how much of what a search shows is relevant, and how much of what is relevant does it show?

The photos of the test part are searched with among those of the training part; without parts, each among all others.
All is ranked exactly, and a real index can be asked beside it.
"""

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.examples import pick_examples
from mocosearch.evaluation.inputs import unit_vectors
from mocosearch.evaluation.outcome import Curve, Figure, Outcome
from mocosearch.evaluation.retrieval import first_k
from mocosearch.evaluation.retrieval.ranking import DEPTH, RECALL_STEPS, Ranking, rank
from mocosearch.evaluation.retrieval.relevance import Relevance
from mocosearch.evaluation.retrieval.through_index import Shown, index_figures
from mocosearch.evaluation.split import queries_and_gallery
from mocosearch_index.records import SearchReport, SearchSettings

_FIRST = (1, 5, 10)
_CURVE = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, DEPTH)
_EXAMPLE = 10  # neighbors

Facts = dict[str, int | float | str]


def evaluate_retrieval(
    vectors: NDArray[np.floating],
    relevance: Relevance,
    held_out: NDArray[np.bool_] | None = None,
    *,
    index_settings: SearchSettings | None = None,
) -> Outcome:
    """Search with each scored photo of `vectors` (n, dim), and score what is shown by `relevance`, of n photos too.

    `held_out` (n,) is the test part. With `index_settings` an index is asked as well. Photos to which nothing is
    relevant are not scored. Raises Unscorable when none is left, for non-finite vectors and for an empty part,
    BadSettings for settings that the vectors do not allow.
    """
    if relevance.count != len(vectors):
        raise ValueError(f"relevance must be of {len(vectors)} photos, not of {relevance.count}")
    unit = unit_vectors(vectors)
    everybody, gallery = queries_and_gallery(len(unit), held_out)
    queries = everybody[relevance.counts(everybody, gallery) > 0]
    if not len(queries):
        raise Unscorable(
            "No photo has another one that a search should find: add photos, for retrieval needs two of a class, or a "
            "pair, of which the one is searched with and the other among those that are searched."
        )
    ranking = rank(unit, relevance, queries, gallery)
    figures = _figures(ranking)
    facts: Facts = {
        "scored": len(queries),
        "searched": len(gallery),
        "without relevant photos": len(everybody) - len(queries),
        "relevant photos on average": float(ranking.relevant.mean()),
    }
    notices = []
    if lonely := len(everybody) - len(queries):
        notices.append(f"{lonely:,} of {len(everybody):,} photos are not scored: no other photo is relevant to them.")
    if index_settings is not None:
        of_index, shown = index_figures(unit, relevance, ranking, gallery, index_settings)
        figures += of_index
        facts |= _index_facts(shown)
        if (asked := len(shown.places)) < len(queries):
            notices.append(f"The index is asked with {asked:,} of the {len(queries):,} photos, evenly spaced.")
        notices += _index_notices(shown.report, index_settings, unit.shape[1])
    examples = pick_examples(
        queries, ranking.shown.first(_EXAMPLE), ranking.hits[:, :_EXAMPLE], relevance.groups(queries)
    )
    return Outcome("retrieval", tuple(figures), facts, _curves(ranking), examples, tuple(notices))


def _figures(ranking: Ranking) -> list[Figure]:
    hits, relevant, gallery = ranking.hits, ranking.relevant, ranking.gallery
    any_k = first_k.chance_precision(relevant, gallery)
    ks = [k for k in _FIRST if k <= gallery]
    return [
        _figure("mAP", ranking.average_precision, first_k.chance_average_precision(relevant, gallery, gallery)),
        _figure("R-precision", ranking.r_precision, any_k),
        *(_figure(f"precision@{k}", first_k.precision(hits, k), any_k) for k in ks),
        *(_figure(f"recall@{k}", first_k.recall(hits, relevant, k), np.full(len(hits), k / gallery)) for k in ks),
        *(_figure(f"hit@{k}", first_k.hit_rate(hits, k), first_k.chance_hit(relevant, gallery, k)) for k in ks),
    ]


def _figure(name: str, of_photos: NDArray[np.float64], chance: NDArray[np.float64]) -> Figure:
    return Figure(name, float(of_photos.mean()), float(chance.mean()), of_photos=of_photos)


def _curves(ranking: Ranking) -> tuple[Curve, ...]:
    recall = np.arange(RECALL_STEPS + 1) / RECALL_STEPS
    ks = [k for k in _CURVE if k <= ranking.gallery]
    by_k = np.array([first_k.precision(ranking.hits, k).mean() for k in ks])
    return (
        Curve("Precision over recall", "recall", "precision", recall, ranking.precision_at_recall.mean(axis=0)),
        Curve("Precision of the first k", "photos shown", "precision", np.array(ks, np.float64), by_k, log_x=True),
    )


def _index_facts(shown: Shown) -> Facts:
    report = shown.report
    facts: Facts = {
        "asked of the index": len(shown.places),
        "index level": report.level,
        "index numbers of a vector": report.dim,
        "index whitened": "yes" if report.whitened else "no",
        "index bytes of a vector": round(report.bytes_a_vector, 1),
    }
    if report.cells is not None and report.cells_visited is not None:
        facts |= {"index cells": report.cells, "index cells visited": report.cells_visited}
    return facts


def _index_notices(report: SearchReport, settings: SearchSettings, dim: int) -> list[str]:
    notices = []
    if settings.level not in (None, report.level):
        notices.append(f"{report.count:,} photos are searched by level {report.level}: too few for {settings.level}.")
    if report.whitened or report.dim < dim:
        searched = "whitened vectors, as a library does without --no-whiten" if report.whitened else "projected vectors"
        notices.append(
            f"The index searches {searched}: other photos are nearest then, on purpose. index recall@10 tells how many "
            "stay, precision and mAP whether the new ones are better."
        )
    elif settings.whiten or settings.dim not in (None, dim):
        notices.append(
            f"{report.count:,} photos are too few or too much alike to learn a projection from: the index searches the "
            "vectors as they are."
        )
    return notices
