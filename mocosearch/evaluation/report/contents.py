"""What an evaluation has to tell, whatever the protocol: table, JSON and report are made of it."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mocosearch import __version__
from mocosearch.evaluation.comparison import Cell, Row, compare
from mocosearch.evaluation.outcome import Curve, Outcome
from mocosearch.images.decode import Undecodable
from mocosearch_index.paths import printable


@dataclass(frozen=True, slots=True)
class Contestant:
    """An encoder and what the protocol says of it."""

    name: str  # short, and different from the others'
    description: str  # of its card
    fingerprint: str
    dim: int
    outcome: Outcome


@dataclass(frozen=True)
class Evaluation:
    """One protocol on one folder, for one encoder or several."""

    folder: Path
    photos: Sequence[Path]  # (n,), which the places in the outcomes mean
    classes: Sequence[str] | None  # (n,), the name of each photo's class; None without labels
    stray: int  # photos that nothing says the class of
    skipped: Sequence[tuple[Path, Undecodable]]
    contestants: tuple[Contestant, ...]  # the first is the one that the others are compared with
    command: str
    date: str  # ISO 8601, to the second

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return self.contestants[0].outcome.protocol

    @cached_property
    def comparison(self) -> Sequence[Row]:
        """A row for each figure, with a cell for each encoder; Unscorable when they cannot be compared."""
        return compare([contestant.outcome for contestant in self.contestants])

    def name_of(self, place: int) -> str:
        """Return the path of a photo inside the folder, safe to show."""
        return printable(os.fsencode(os.path.relpath(self.photos[place], self.folder)))

    def as_dictionary(self) -> dict[str, Any]:
        """Return everything but the pictures, for JSON: null where a number is not defined."""
        return {
            "protocol": self.protocol,
            "folder": printable(os.fsencode(self.folder.absolute())),
            "command": self.command,
            "date": self.date,
            "version": __version__,
            "photos": len(self.photos),
            "classes": None if self.classes is None else len(set(self.classes)),
            "stray": self.stray,
            "skipped": [
                {"path": printable(os.fsencode(path)), "reason": error.reason, "detail": error.detail}
                for path, error in self.skipped
            ],
            "encoders": [self._encoder(number) for number in range(len(self.contestants))],
        }

    def _encoder(self, number: int) -> dict[str, Any]:
        contestant = self.contestants[number]
        outcome = contestant.outcome
        return {
            "name": contestant.name,
            "description": contestant.description,
            "fingerprint": contestant.fingerprint,
            "dim": contestant.dim,
            "facts": {name: _defined(value) for name, value in outcome.facts.items()},
            "figures": {row.name: _figure(row, row.cells[number]) for row in self.comparison},
            "curves": [_curve(curve) for curve in outcome.curves],
            "notices": list(outcome.notices),
        }


def _figure(row: Row, cell: Cell) -> dict[str, Any]:
    """Return a figure; of all encoders but the first with its difference to the first's."""
    figure = {
        "value": _defined(cell.value),
        "interval": cell.interval,
        "chance": _defined(row.chance),
        "better": row.better,
    }
    if cell.difference is None:
        return figure
    return {
        **figure,
        "difference": _defined(cell.difference),
        "difference_interval": cell.difference_interval,
        "verdict": cell.verdict,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "title": curve.title,
        "x_name": curve.x_name,
        "y_name": curve.y_name,
        "x": [_defined(value) for value in curve.x.tolist()],
        "y": [_defined(value) for value in curve.y.tolist()],
    }


def _defined(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
