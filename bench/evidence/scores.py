"""What an encoder is worth on a collection: the figures of docs/evidence.md, and what single photos gave for them."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch.encoders import Encoder
from mocosearch.evaluation.features import embed_folder
from mocosearch.evaluation.intervals import difference_intervals, intervals_of
from mocosearch.evaluation.knn import evaluate_knn
from mocosearch.evaluation.labels.labelled import LabelledPhotos
from mocosearch.evaluation.linear.probe import evaluate_linear
from mocosearch.evaluation.retrieval.protocol import evaluate_retrieval
from mocosearch.evaluation.retrieval.relevance import SameLabel
from mocosearch_index.atomic import atomic_path

FIGURES = ("linear accuracy", "kNN accuracy", "precision@10", "mAP")

OfPhotos = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Scored:
    """A figure and its 95% interval over the test photos."""

    value: float
    low: float
    high: float


def thinned(photos: LabelledPhotos, *, gallery: int, queries: int) -> LabelledPhotos:
    """Return one photo in `gallery` of the training part and one in `queries` of the test part: for quick trials."""
    assert photos.held_out is not None
    test, train = np.flatnonzero(photos.held_out)[::queries], np.flatnonzero(~photos.held_out)[::gallery]
    return photos.selected(np.sort(np.concatenate([test, train])))


def of_photos(photos: LabelledPhotos, encoder: Encoder) -> OfPhotos:
    """Return what each test photo gave: right or wrong, and its precision, with the training part as gallery."""
    features = embed_folder(photos.paths, encoder)
    assert not features.skipped
    vectors, labels, held_out = features.vectors, photos.labels, photos.held_out
    outcomes = [
        evaluate_linear(vectors, labels, held_out),
        evaluate_retrieval(vectors, SameLabel(labels), held_out),
        evaluate_knn(vectors, labels, held_out),
    ]
    figures = {figure.name: figure.of_photos for outcome in outcomes for figure in outcome.figures}
    return {name: numbers for name in FIGURES if (numbers := figures[name]) is not None}


def scored(numbers: OfPhotos) -> dict[str, dict[str, float]]:
    """Return each figure with its interval, ready for JSON."""
    intervals = intervals_of(list(numbers.values()))
    told = {}
    for (name, column), interval in zip(numbers.items(), intervals, strict=True):
        low, high = interval or (float("nan"), float("nan"))
        told[name] = asdict(Scored(float(column.mean()), low, high))
    return told


def differences(one: OfPhotos, other: OfPhotos) -> dict[str, dict[str, float]]:
    """Return by how much `one` is ahead of `other` on the same photos, with 95% intervals (paired bootstrap)."""
    columns = [one[name] - other[name] for name in one]
    pairs = zip(one, columns, difference_intervals(columns), strict=True)
    return {name: asdict(Scored(float(column.mean()), *interval)) for name, column, interval in pairs}


def keep(path: Path, numbers: OfPhotos) -> None:
    """Write what single photos gave, for comparisons with encoders that are not trained yet; rounded to float16."""
    with atomic_path(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **{name: column.astype(np.float16) for name, column in numbers.items()})


def kept(path: Path) -> OfPhotos:
    """Read what `keep` wrote."""
    with np.load(path) as file:
        return {name: file[name].astype(np.float64) for name in file.files}
