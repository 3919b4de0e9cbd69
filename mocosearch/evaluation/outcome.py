"""What every protocol gives: figures with the photos behind them, curves, and what a search shows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """One number about an encoder."""

    name: str  # as a table shows it: "kNN accuracy", "precision@10"
    value: float
    chance: float | None = None  # what is reached without looking
    better: Literal["higher", "lower"] = "higher"
    of_photos: NDArray[np.float64] | None = None  # (m,), a number for each scored photo; `value` is their mean
    is_difference: bool = False  # of two figures on the same photos: 0 is none


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A line of a report; the same title in several outcomes means one picture."""

    title: str
    x_name: str
    y_name: str
    x: NDArray[np.float64]  # (p,)
    y: NDArray[np.float64]  # (p,)
    log_x: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What a search shows for some of the scored photos; all numbers are places in the list of photos."""

    queries: NDArray[np.int64]  # (q,)
    neighbors: NDArray[np.int64]  # (q, k), best first
    scores: NDArray[np.float32]  # (q, k), cosine
    hits: NDArray[np.bool_]  # (q, k)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What one protocol says of one encoder."""

    protocol: str  # "knn", "linear", "linear --fast", "retrieval", "health"
    figures: tuple[Figure, ...]
    facts: Mapping[str, int | float | str] = field(default_factory=dict)  # counts, and what was chosen
    curves: tuple[Curve, ...] = ()
    examples: Examples | None = None
    notices: tuple[str, ...] = ()  # one line each, for people: what limits the figures
