"""Which encoders are trained and compared: every run has a name, and all that decides it is written here."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["untrained", "public", "ours", "lightly", "supervised"]


@dataclass(frozen=True)
class Planned:
    """A run: `minutes` of wall time on all cores, or for a trial of CPU time on one core, twice as many.

    `changes` are to the recipe `recipe`, as `mocosearch train --set` takes them. `continued` runs start from the public
    network (an untrained one has its architecture). `pixels`: the sides of what the encoder sees when it is scored.
    """

    name: str
    case: str
    kind: Kind
    pixels: tuple[int, ...]
    minutes: float = 0
    recipe: str = "moco_v2_small"
    changes: tuple[str, ...] = ()
    continued: bool = False
    seed: int = 0
    trial: bool = False

    @property
    def overrides(self) -> list[str]:
        """Return what `--set` is given."""
        return [*self.changes, f"seed={self.seed}"]


def _changes(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PLAN: tuple[Planned, ...] = (
    Planned("public", "eurosat", "public", (64, 160)),
    Planned("untrained", "eurosat", "untrained", (64,)),
    Planned("untrained public", "eurosat", "untrained", (64,), continued=True),
)
COMPARED: tuple[tuple[Planned, Planned], ...] = ()
