"""Health without labels: do the vectors fill the space or collapse, and do they stay when a photo is changed?"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.inputs import Vectors, checked_vectors, gram, unit_vectors
from mocosearch.evaluation.neighbors import nearest
from mocosearch.evaluation.outcome import Curve, Figure, Outcome

# Healthy and even untrained networks spread by .1 and more, one that maps all photos to one point by about 0.
COLLAPSED_SPREAD = 0.01
COLLAPSED_RANK = 1.5  # exp of an entropy: 1 when every vector lies on one line
STABLE = 10  # nearest neighbors that should stay
_UNIFORMITY_SAMPLE = 4096  # vectors; all pairs among them
_ROWS = 1024
_CURVE_POINTS = 101
_SMALLEST_SINGULAR = 1e-6  # of the largest; what is smaller is rounding


@dataclass(frozen=True, slots=True, eq=False)
class Health:
    """Label-free figures of one set of vectors."""

    singular_values: NDArray[np.float64]  # (min(n, dim),) of the unit vectors, which are not centered; largest first
    effective_rank: float  # RankMe (Garrido et al. 2023): 1 .. dim, higher is richer
    uniformity: float  # Wang & Isola 2020: 0 when all are equal, down to about -4 when spread evenly
    feature_spread: float  # mean standard deviation of a unit vector's coordinates x sqrt(dim): 0 .. about 1
    collapsed: bool


@dataclass(frozen=True, slots=True, eq=False)
class TwoViews:
    """Vectors of two augmented views of each of s photos."""

    places: NDArray[np.int64]  # (s,), ascending: which photos of the list they are of
    first: NDArray[np.float32]  # (s, dim)
    second: NDArray[np.float32]  # (s, dim)

    def only(self, places: NDArray[np.int64]) -> "TwoViews":
        """Return those of the photos at `places`, which are some of its own."""
        kept = np.isin(self.places, places)
        return TwoViews(self.places[kept], self.first[kept], self.second[kept])


def evaluate_health(vectors: NDArray[np.floating], views: TwoViews) -> Outcome:
    """Measure `vectors` (n, dim) of photos, and how they move when the photos are cropped and recolored.

    `views` are of some of these photos, places in `vectors`. Neighbor stability is the share of a photo's ten nearest
    others that are also nearest to an augmented view of it, among the others as they are; of two views the mean.
    Alignment is small, too, where all photos lie close together, so relative alignment divides it by the squared
    distance of views of different photos; on it, not on alignment, encoders can be compared.
    A zero vector is like nothing at all. Raises Unscorable for fewer than two photos and for non-finite vectors.
    """
    health = label_free_health(vectors)
    distances = squared_distances(views.first, views.second)
    relative = relative_alignment(views)
    stability = neighbor_stability(vectors, views)
    neighbors = min(STABLE, len(vectors) - 1)
    figures = (
        Figure("effective rank", health.effective_rank),
        Figure("uniformity", health.uniformity, better="lower"),
        Figure("feature spread", health.feature_spread),
        Figure("alignment", float(distances.mean()), better="lower"),
        Figure("relative alignment", float(relative.mean()), 1.0, better="lower", of_photos=relative),
        Figure("neighbor stability", float(stability.mean()), neighbors / (len(vectors) - 1), of_photos=stability),
    )
    facts = {
        "photos": len(vectors),
        "dimensions": vectors.shape[1],
        "augmented": len(views.places),
        "neighbors": neighbors,
        "collapsed": "yes" if health.collapsed else "no",
    }
    curves = (*_spectrum(health.singular_values), _distances_curve(distances))
    notices = _notices(health, len(vectors), vectors.shape[1], len(views.places))
    return Outcome("health", figures, facts, curves, notices=tuple(notices))


def label_free_health(vectors: NDArray[np.floating]) -> Health:
    """Measure `vectors` (n, dim); Unscorable for fewer than two, or when one is not finite."""
    unit = unit_vectors(vectors)
    if len(unit) < 2:
        raise Unscorable(f"Health figures need at least 2 photos, here {len(unit)}: add photos to the folder.")
    singular = singular_values(unit)
    rank = effective_rank(singular)
    spread = float(unit.std(axis=0, dtype=np.float64).mean() * np.sqrt(unit.shape[1]))
    return Health(singular, rank, uniformity(unit), spread, spread < COLLAPSED_SPREAD or rank < COLLAPSED_RANK)


def singular_values(vectors: Vectors) -> NDArray[np.float64]:
    """Return the singular values of (n, dim), largest first."""
    # As roots of eigenvalues of the smaller Gram matrix: seconds where a decomposition takes minutes.
    products = gram(vectors if vectors.shape[1] <= len(vectors) else np.ascontiguousarray(vectors.T))
    values: NDArray[np.float64] = np.sqrt(np.clip(np.linalg.eigvalsh(products), 0, None))[::-1]
    return values


def effective_rank(singular: NDArray[np.float64]) -> float:
    """Return RankMe: exp of the entropy of the singular values."""
    if singular.sum() == 0:
        return 1.0  # nothing but zero vectors
    shares = singular / singular.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def uniformity(vectors: Vectors) -> float:
    """Return log of the mean of exp(-2 |x - y|^2) over pairs of unit vectors (n, dim); lower is more uniform.

    Beyond 4,096 vectors an evenly spaced sample of that size is used.
    """
    if len(vectors) > _UNIFORMITY_SAMPLE:
        vectors = vectors[np.linspace(0, len(vectors) - 1, _UNIFORMITY_SAMPLE).astype(np.int64)]
    total = 0.0
    squares = np.einsum("nd,nd->n", vectors, vectors)
    for start in range(0, len(vectors), _ROWS):
        block = slice(start, start + _ROWS)
        distance = squares[block, None] + squares - 2 * (vectors[block] @ vectors.T)
        total += float(np.exp(-2 * distance.clip(min=0)).sum(dtype=np.float64))
    pairs = len(vectors) * (len(vectors) - 1)
    return float(np.log(max(total - len(vectors), np.finfo(np.float64).tiny) / pairs))  # less each with itself


def alignment(view_a: NDArray[np.floating], view_b: NDArray[np.floating]) -> float:
    """Return the mean squared distance of two views' unit vectors, (n, dim) each: 0 .. 4, lower is better."""
    return float(squared_distances(view_a, view_b).mean())


def squared_distances(view_a: NDArray[np.floating], view_b: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the squared distance (n,) of two views' unit vectors, (n, dim) each."""
    if view_a.shape != view_b.shape:
        raise ValueError(f"the views must have one shape, not {view_a.shape} and {view_b.shape}")
    apart: NDArray[np.float64] = ((unit_vectors(view_a) - unit_vectors(view_b)) ** 2).sum(axis=1, dtype=np.float64)
    return apart


def relative_alignment(views: TwoViews) -> NDArray[np.float64]:
    """Return a number for each photo (s,) whose mean is alignment / mean squared distance of views of two photos.

    A photo counts by what it adds to the distance of a photo's own views and, linearized, to that of different photos
    (the infinitesimal jackknife): so an interval over photos knows that both are estimates. All 1 where photos are
    not apart at all.
    """
    own = squared_distances(views.first, views.second)
    others = _distances_to_others(views)
    apart = others.mean()
    if not apart > 0:
        return np.ones_like(own)
    numbers: NDArray[np.float64] = (
        own - own.mean() / apart * 2 * (others - apart)
    ) / apart  # 2: it is in both of a pair
    return numbers


def _distances_to_others(views: TwoViews) -> NDArray[np.float64]:
    """Return the mean squared distance (s,) of a photo's views to the other views of all others; 0 of one photo."""
    first, second = (unit_vectors(view).astype(np.float64) for view in (views.first, views.second))
    squares = (first**2).sum(axis=1), (second**2).sum(axis=1)
    products = first @ second.sum(axis=0) + second @ first.sum(axis=0)
    count = len(first)
    total = count * (squares[0] + squares[1]) + squares[0].sum() + squares[1].sum() - 2 * products  # to all, both ways
    others = total - 2 * ((first - second) ** 2).sum(axis=1)
    distances: NDArray[np.float64] = np.maximum(others, 0) / max(1, 2 * (count - 1))
    return distances


def neighbor_stability(vectors: NDArray[np.floating], views: TwoViews) -> NDArray[np.float64]:
    """Return for each photo of `views` the share (s,) of its nearest others in `vectors` that stay: `evaluate_health`.

    Of equally near ones those of lower place count as nearer, so that equal vectors are perfectly stable.
    """
    everybody = np.arange(len(vectors))
    before = nearest(vectors, views.places, everybody, STABLE).indices
    count = before.shape[1]
    everything = np.concatenate([checked_vectors(vectors), checked_vectors(views.first), checked_vectors(views.second)])
    # A photo itself is among those found by its views, unless others are as near: leave it out, or else the last.
    found = nearest(everything, np.arange(len(vectors), len(everything)), everybody, count + 1).indices
    own = found == np.tile(views.places, 2)[:, None]
    own[:, -1] |= ~own.any(axis=1)
    after = found[~own].reshape(2, -1, count)
    stays = (before[:, :, None] == after[..., None, :]).any(axis=-1)  # (2, s, count)
    shares: NDArray[np.float64] = stays.mean(axis=(0, 2))
    return shares


def _spectrum(singular: NDArray[np.float64]) -> Iterator[Curve]:
    """Yield the curve of the singular values; none where all vectors are zero."""
    used = singular[singular > _SMALLEST_SINGULAR * singular[0]]
    if len(used):
        shown = np.unique(np.geomspace(1, len(used), _CURVE_POINTS).round()).astype(np.int64)
        yield Curve(
            "Singular values",
            "direction, the strongest first",
            "log10 of its share of the first",
            shown.astype(np.float64),
            np.log10(used[shown - 1] / used[0]),
            log_x=True,
        )


def _distances_curve(distances: NDArray[np.float64]) -> Curve:
    shares = np.linspace(0, 1, _CURVE_POINTS)
    return Curve(
        "Alignment, photo by photo",
        "squared distance of two views of a photo",
        "share of photos up to there",
        np.quantile(distances, shares),
        shares,
    )


def _notices(health: Health, photos: int, dim: int, augmented: int) -> Iterator[str]:
    if health.collapsed:
        yield (
            "All photos get nearly the same vector, so alignment and neighbor stability mean nothing: the encoder has "
            "collapsed, or the photos are much alike. Ask with other photos; if it stays, train again with a lower "
            "learning rate."
        )
    if photos <= dim:
        yield f"The effective rank cannot exceed the number of photos, {photos:,}: compare it on the same photos only."
    if photos - 1 <= STABLE:
        yield f"A photo has no more than {photos - 1} others, so all of them always stay the nearest: add photos."
    if augmented < photos:
        yield f"Alignment and neighbor stability are of {augmented:,} of the {photos:,} photos."
