"""The same protocol on several encoders, side by side: which figures differ by more than the choice of photos."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mocosearch.errors import Unscorable
from mocosearch.evaluation.intervals import Interval, difference_intervals, intervals_of
from mocosearch.evaluation.outcome import Figure, Outcome

Verdict = Literal["better", "worse", "tie"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of one encoder. Intervals are of 95%, and None where no photos are behind the figure."""

    value: float
    interval: Interval | None
    difference: float | None  # `value` less that of the first encoder; None in the first
    difference_interval: Interval | None  # paired by photo
    verdict: Verdict | None  # on this encoder, seen from the first; "tie" when the interval holds 0


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of all encoders."""

    name: str
    better: Literal["higher", "lower"]
    chance: float | None
    cells: tuple[Cell, ...]  # in the order of the outcomes


def compare(outcomes: Sequence[Outcome], seed: int = 0) -> tuple[Row, ...]:
    """Return a row for each figure of `outcomes`, one outcome an encoder; the others are compared with the first.

    A pure function; `seed` is that of the resamples. Raises Unscorable unless all outcomes are of one protocol and
    have the same figures over the same photos.
    """
    rows = _rows(outcomes)
    of_photos = {
        (row, column): figure.of_photos
        for row, figures in enumerate(rows)
        for column, figure in enumerate(figures)
        if figure.of_photos is not None
    }
    paired = {(row, column): numbers - of_photos[row, 0] for (row, column), numbers in of_photos.items() if column}
    # All at once, for the resamples take most of the time and serve all figures over the same number of photos.
    intervals = dict(zip(of_photos, intervals_of(list(of_photos.values()), seed), strict=True))
    own = {(row, column): of_photos[row, column] for row, column in of_photos if rows[row][column].is_difference}
    intervals |= zip(own, difference_intervals(list(own.values()), seed), strict=True)
    differences = dict(zip(paired, difference_intervals(list(paired.values()), seed), strict=True))

    def cell(row: int, column: int) -> Cell:
        figure, first = rows[row][column], rows[row][0]
        interval = differences.get((row, column))
        return Cell(
            value=figure.value,
            interval=intervals.get((row, column)),
            difference=figure.value - first.value if column else None,
            difference_interval=interval,
            verdict=None if interval is None else _verdict(interval, figure.better),
        )

    return tuple(
        Row(first.name, first.better, first.chance, tuple(cell(row, column) for column in range(len(outcomes))))
        for row, (first, *_) in enumerate(rows)
    )


def _rows(outcomes: Sequence[Outcome]) -> list[tuple[Figure, ...]]:
    """Return for each figure that of every outcome."""
    protocols = sorted({outcome.protocol for outcome in outcomes})
    if len(protocols) > 1:
        raise Unscorable(f"Figures of {' and '.join(protocols)} cannot be compared: use one protocol for all encoders.")
    if len({tuple(map(_kind, outcome.figures)) for outcome in outcomes}) > 1:
        raise Unscorable("Figures over different photos cannot be compared: score all encoders on the same photos.")
    return list(zip(*(outcome.figures for outcome in outcomes), strict=True))


def _kind(figure: Figure) -> tuple[str, str, float | None, int | None]:
    """What figures have in common that can be compared."""
    return figure.name, figure.better, figure.chance, None if figure.of_photos is None else len(figure.of_photos)


def _verdict(interval: Interval, better: Literal["higher", "lower"]) -> Verdict:
    low, high = interval
    if low <= 0 <= high:
        return "tie"
    return "better" if (low > 0) == (better == "higher") else "worse"
