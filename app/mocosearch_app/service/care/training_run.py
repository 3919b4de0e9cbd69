"""The run that trained an encoder, if it is known on this machine: its curves, and how healthy it ended."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

from mocosearch.user_folders import trained_encoder
from mocosearch_index.paths import printable

_POINTS = 120  # of a curve; each is the median of many steps
_OF_STEPS = ("loss", "accuracy")
_OF_LOOKS = ("effective_rank", "knn_accuracy")

Point = tuple[float, float]  # epoch (or step, where no health tells how long an epoch is), value


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Curves by the name of their figure in the run's records; `health`: the last look at the encoder."""

    folder: str  # printable
    steps: int
    in_epochs: bool  # else curves go by steps
    curves: dict[str, tuple[Point, ...]]
    health: dict[str, float]


def run_of(fingerprint: str) -> TrainingRun | None:
    """Return the run whose encoder has this fingerprint; None when it is not known here, or gone."""
    encoder = trained_encoder(fingerprint)
    if encoder is None:
        return None
    folder = encoder.parent
    try:
        stamps = tuple((folder / name).stat().st_mtime_ns for name in ("metrics.jsonl", "health.jsonl"))
    except OSError:  # an encoder that was not trained here, or was moved away from its run
        return None
    return _read(folder, stamps)


@lru_cache(maxsize=2)
def _read(folder: Path, stamps: tuple[int, ...]) -> TrainingRun:
    """Read a run's records; `stamps` say when they have to be read again."""
    from mocosearch.training.records import read_rows  # loads torch and matplotlib

    steps, looks = read_rows(folder / "metrics.jsonl"), read_rows(folder / "health.jsonl")
    a_epoch = next((row["step"] / row["epoch"] for row in reversed(looks) if row.get("epoch")), None)
    # Among random keys the right one is easily found: those figures would only hide the others.
    steps = [row for row in steps if row.get("queue_fill", 1.0) >= 1]
    curves = {name: _curve(steps, name, a_epoch or 1) for name in _OF_STEPS}
    curves |= {name: _curve(looks, name, a_epoch or 1) for name in _OF_LOOKS}
    health = {name: value for name, value in looks[-1].items() if isinstance(value, float)} if looks else {}
    return TrainingRun(
        folder=printable(os.fsencode(folder)),
        steps=max((rows[-1]["step"] for rows in (steps, looks) if rows), default=0),
        in_epochs=a_epoch is not None,
        curves={name: points for name, points in curves.items() if len(points) > 1},
        health=health,
    )


def _curve(rows: Sequence[dict[str, Any]], name: str, a_epoch: float) -> tuple[Point, ...]:
    """Return the medians of up to _POINTS runs of consecutive rows that have this figure."""
    rows = [row for row in rows if isinstance(row.get(name), float) and isfinite(row[name])]
    size = max(1, -(-len(rows) // _POINTS))
    parts = [rows[first : first + size] for first in range(0, len(rows), size)]
    return tuple((part[-1]["step"] / a_epoch, median(row[name] for row in part)) for part in parts)
