"""Ways to search with what an encoder gives, and how well each finds photos of the same class and copies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.decision_vectors import COPIES, Float32, Photos
from mocosearch.evaluation.inputs import unit_vectors
from mocosearch.evaluation.intervals import difference_intervals
from mocosearch.evaluation.outcome import Outcome
from mocosearch.evaluation.retrieval.protocol import evaluate_retrieval
from mocosearch.evaluation.retrieval.relevance import Pairs, SameLabel

Float64 = NDArray[np.float64]

_DRAWS = 8
FIGURES = ("mAP", "precision@10", "copies first", "turned first")


@dataclass(frozen=True, slots=True)
class Spread:
    """Takes the mean from unit vectors, turns them to the axes of their PCA, and weighs the axes anew."""

    power: float = 0.0  # of the variance along an axis: 0 leaves it, -1/2 whitens, -1/4 is half way
    floor: float = 0.0  # added to every variance, as a share of the largest
    dim: int | None = None  # axes that are kept

    def __call__(self, vectors: Float32, of: Float32) -> Float32:
        """Return what becomes of `vectors` (m, dim) when it is fitted to `of` (n, dim)."""
        mean = of.mean(axis=0)
        variances, axes = np.linalg.eigh(np.cov(of, rowvar=False, bias=True))  # ascending
        kept = slice(-self.dim if self.dim else None, None)
        weights = (variances.clip(0) + 1e-6 + self.floor * variances[-1]) ** self.power
        return (vectors - mean) @ (axes * weights)[:, kept].astype(np.float32)


def figures(vectors: Float32, photos: Photos, labels: NDArray[np.int64]) -> Mapping[str, Float64]:
    """Score vectors (count, dim) of all pictures of `photos`: for each of FIGURES a number a photo.

    Class figures leave one out. Copies are searched for among the photos; each photo that is copied has the share
    of its copies to which it comes first.
    """
    n, kinds = len(photos.paths), len(COPIES)
    pairs = np.stack([np.arange(n, len(vectors)), np.repeat(photos.copied, kinds)], axis=1)
    of_class = _of_photos(evaluate_retrieval(vectors[:n], SameLabel(labels)))
    of_copies = _of_photos(evaluate_retrieval(vectors, Pairs(pairs, len(vectors)), np.arange(len(vectors)) >= n))
    first = of_copies["hit@1"].reshape(-1, kinds)
    numbers = (of_class["mAP"], of_class["precision@10"], first[:, :-1].mean(axis=1), first[:, -1])
    return dict(zip(FIGURES, numbers, strict=True))


def in_small_libraries(
    vectors: Float32, photos: Photos, labels: NDArray[np.int64], how: Spread, counts: Sequence[int]
) -> Iterator[Sequence[str]]:
    """Yield a row for each number of photos: what `how`, fitted to so few, changes in libraries drawn of `photos`."""
    n, kinds = len(photos.paths), len(COPIES)
    for count in counts:
        before: dict[str, list[float]] = {figure: [] for figure in FIGURES}
        after: dict[str, list[float]] = {figure: [] for figure in FIGURES}
        for draw in range(_DRAWS):
            generator = np.random.default_rng([count, draw])
            copied = generator.choice(len(photos.copied), min(count // 2, len(photos.copied)), replace=False)
            others = np.setdiff1d(np.arange(n), photos.copied[copied])
            places = np.append(photos.copied[copied], generator.choice(others, count - len(copied), replace=False))
            library = Photos([photos.paths[place] for place in places], np.arange(len(copied)))
            made = vectors[np.append(places, (n + kinds * copied[:, None] + np.arange(kinds)).ravel())]
            for numbers, searched in ((before, made), (after, unit_vectors(how(made, made[:count])))):
                for figure, of_photos in figures(searched, library, labels[places]).items():
                    numbers[figure].append(float(of_photos.mean()))
        yield row(
            f"{count} photos", *({name: np.array(numbers[name]) for name in FIGURES} for numbers in (after, before))
        )


def _of_photos(outcome: Outcome) -> Mapping[str, Float64]:
    return {figure.name: figure.of_photos for figure in outcome.figures if figure.of_photos is not None}


def row(name: str, scored: Mapping[str, Float64], base: Mapping[str, Float64] | None) -> Sequence[str]:
    """Return a row of a table: percentages, or their differences to `base` with 95% intervals, paired by photo."""
    if base is None:
        return [name, *(f"{100 * scored[figure].mean():.1f}" for figure in FIGURES)]
    differences = [scored[figure] - base[figure] for figure in FIGURES]
    cells = []
    for difference, (low, high) in zip(differences, difference_intervals(differences), strict=True):
        words = f"{100 * difference.mean():+.1f} ({100 * low:+.1f} .. {100 * high:+.1f})"
        cells.append(f"{words} tie" if low <= 0 <= high else words)
    return [name, *cells]
