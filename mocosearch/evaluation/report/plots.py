"""Where everything of a picture lies: lines over their axes, and a figure between 0 and 1. The template draws it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from mocosearch.evaluation.outcome import Curve

WIDTH, HEIGHT = 400, 260  # of a plot, in its own units
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 46  # margins around the axes
_MOST_MARKS = 25  # points of a line; of more the line alone is clearer
_FEW_DECADES = 3
BAR_WIDTH = 160  # of the picture of one figure
_BAR_MARGIN = 6

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place on an axis."""

    place: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """One encoder's curve in a plot."""

    name: str
    style: int  # its place among the encoders: color, dashes and marks go by it
    path: str  # of SVG: "1.0,2.0 3.0,4.0"
    marks: tuple[tuple[float, float], ...]  # empty where there are too many
    says: str  # for those who do not see it


@dataclass(frozen=True, slots=True)
class Plot:
    """All curves of one title, in one picture."""

    title: str
    x_name: str
    y_name: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    top: float = _TOP
    bottom: float = HEIGHT - _BOTTOM


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure between 0 and 1 as a point with its interval, and what chance gives; places from left to right."""

    value: float
    interval: Bounds | None
    chance: float | None
    start: float = _BAR_MARGIN
    end: float = BAR_WIDTH - _BAR_MARGIN


def plot(curves: Sequence[tuple[str, int, Curve]]) -> Plot | None:
    """Lay out curves of one title, each with the name and the place of its encoder; None when no point is finite."""
    drawn = [(name, style, curve, *_finite(curve)) for name, style, curve in curves]
    drawn = [line for line in drawn if len(line[3])]
    if not drawn:
        return None
    first = drawn[0][2]
    across = np.concatenate([x for *_, x, _ in drawn])
    x_of, x_ticks = (_log_axis if first.log_x else _axis)(across, _LEFT, WIDTH - _RIGHT)
    y_of, y_ticks = _axis(np.concatenate([y for *_, y in drawn]), HEIGHT - _BOTTOM, _TOP, snug=False)
    lines = tuple(_line(name, style, curve, x, y, x_of, y_of) for name, style, curve, x, y in drawn)
    return Plot(first.title, first.x_name, first.y_name, x_ticks, y_ticks, lines)


def bars(figures: Sequence[tuple[float, Bounds | None]], chance: float | None) -> list[Bar] | None:
    """Lay out one figure of each encoder, (value, interval).

    None when any of the numbers lies outside of 0 to 1, for then no scale is theirs.
    """
    known = [] if chance is None else [chance]
    for value, interval in figures:
        known += [value, *(interval or ())]
    if not all(0 <= number <= 1 for number in known):
        return None

    def place(share: float) -> float:
        return round(_BAR_MARGIN + share * (BAR_WIDTH - 2 * _BAR_MARGIN), 1)

    return [
        Bar(
            place(value),
            (place(interval[0]), place(interval[1])) if interval else None,
            None if chance is None else place(chance),
        )
        for value, interval in figures
    ]


def _finite(curve: Curve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    known = np.isfinite(curve.x) & np.isfinite(curve.y)
    if curve.log_x:
        known &= curve.x > 0
    return curve.x[known], curve.y[known]


_Place = Callable[[float], float]


def _line(
    name: str, style: int, curve: Curve, x: NDArray[np.float64], y: NDArray[np.float64], x_of: _Place, y_of: _Place
) -> Line:
    points = tuple((round(x_of(a), 1), round(y_of(b), 1)) for a, b in zip(x, y, strict=True))
    path = " ".join(f"{a},{b}" for a, b in points)
    lowest, highest = int(np.argmin(y)), int(np.argmax(y))
    says = (
        f"{name}: from {y[0]:.3g} at {x[0]:g} to {y[-1]:.3g} at {x[-1]:g}, "
        f"lowest {y[lowest]:.3g} at {x[lowest]:g}, highest {y[highest]:.3g} at {x[highest]:g}"
    )
    return Line(name, style, path, points if len(points) <= _MOST_MARKS else (), says)


def _axis(
    values: NDArray[np.float64], start: float, end: float, *, snug: bool = True
) -> tuple[_Place, tuple[Tick, ...]]:
    """Return where a value lies between `start` and `end`, and the ticks; a `snug` axis ends where the values end."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-9 * max(1.0, abs(low)):  # a flat line runs in the middle
        low, high, snug = low - 0.05 * max(1.0, abs(low)), high + 0.05 * max(1.0, abs(high)), False
    steps = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    if not snug:
        low, high = min(low, float(steps[0])), max(high, float(steps[-1]))

    def place(value: float) -> float:
        return start + (value - low) / (high - low) * (end - start)

    ticks = (float(step) for step in steps)
    margin = 1e-9 * (high - low)
    return place, tuple(Tick(round(place(t), 1), f"{t:,.6g}") for t in ticks if low - margin <= t <= high + margin)


def _log_axis(values: NDArray[np.float64], start: float, end: float) -> tuple[_Place, tuple[Tick, ...]]:
    """Do the same for positive values by their logarithm; ticks at powers of ten, where few at 2 and 5 too."""
    logs = np.log10(values)
    place, _ = _axis(logs, start, end)
    low, high = float(logs.min()), float(logs.max())
    factors = (1, 2, 5) if high - low < _FEW_DECADES else (1,)
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = sorted(factor * 10.0**decade for decade in decades for factor in factors)
    shown = [tick for tick in ticks if low - 1e-9 <= math.log10(tick) <= high + 1e-9] or [float(values[0])]
    return (lambda value: place(math.log10(value))), tuple(
        Tick(round(place(math.log10(tick)), 1), f"{tick:,.6g}") for tick in shown
    )
