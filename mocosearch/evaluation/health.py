"""Health without labels: have the vectors collapsed, and how well do they fill the space?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.inputs import Vectors, unit_vectors

# Healthy and even untrained networks spread by .1 and more, one that maps all photos to one point by about 0.
COLLAPSED_SPREAD = 0.01
COLLAPSED_RANK = 1.5  # exp of an entropy: 1 when every vector lies on one line
_UNIFORMITY_SAMPLE = 4096  # vectors; all pairs among them
_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Health:
    """Label-free figures of one set of vectors."""

    effective_rank: float  # RankMe (Garrido et al. 2023): 1 .. dim, higher is richer
    uniformity: float  # Wang & Isola 2020: 0 when all are equal, down to about -4 when spread evenly
    feature_spread: float  # mean standard deviation of a unit vector's coordinates x sqrt(dim): 0 .. about 1
    collapsed: bool


def label_free_health(vectors: NDArray[np.floating]) -> Health:
    """Measure `vectors` (n, dim); Unscorable for fewer than two, or when one is not finite."""
    unit = unit_vectors(vectors)
    if len(unit) < 2:
        raise Unscorable(f"Health figures need at least 2 photos, here {len(unit)}: add photos to the folder.")
    rank = effective_rank(unit)
    spread = float(unit.std(axis=0, dtype=np.float64).mean() * np.sqrt(unit.shape[1]))
    return Health(rank, uniformity(unit), spread, spread < COLLAPSED_SPREAD or rank < COLLAPSED_RANK)


def effective_rank(vectors: Vectors) -> float:
    """Return RankMe: exp of the entropy of the singular values of (n, dim), which are not centered."""
    # Singular values as roots of eigenvalues of the smaller Gram matrix: seconds where an SVD takes minutes.
    gram = _gram(vectors if vectors.shape[1] <= len(vectors) else np.ascontiguousarray(vectors.T))
    singular = np.sqrt(np.clip(np.linalg.eigvalsh(gram), 0, None))
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
    if view_a.shape != view_b.shape:
        raise ValueError(f"the views must have one shape, not {view_a.shape} and {view_b.shape}")
    return float(((unit_vectors(view_a) - unit_vectors(view_b)) ** 2).sum(axis=1).mean())


def _gram(vectors: Vectors) -> NDArray[np.float64]:
    """Return vectors.T @ vectors (dim, dim) in float64, converting some rows at a time."""
    total = np.zeros((vectors.shape[1], vectors.shape[1]))
    for start in range(0, len(vectors), _ROWS):
        block = vectors[start : start + _ROWS].astype(np.float64)
        total += block.T @ block
    return total
