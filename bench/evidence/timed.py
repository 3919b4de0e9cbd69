"""A training loop of plain PyTorch for a wall time, which goes on after a kill from what it saved last."""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from mocosearch_index.atomic import atomic_path

LOOKS = 20  # at the accuracy on the probe, in a run
SAVE_SECONDS = 120.0
Batch = TypeVar("Batch", contravariant=True)


class Stateful(Protocol):
    """What has to be saved, so that a run can go on."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


@dataclass
class TimedRun(Generic[Batch]):
    """`step` takes a batch, updates all weights and returns the loss; `look` tells the accuracy on the probe.

    The learning rate falls by a cosine of the time that was spent, looks included, as in `mocosearch train --minutes`;
    during the first `warmup`, a share of the time, it rises to that.
    """

    checkpoint: Path
    minutes: float
    parts: dict[str, Stateful]
    optimizer: torch.optim.Optimizer
    lr: float
    step: Callable[[Batch], Tensor]
    look: Callable[[], float]
    warmup: float = 0.0
    spent: float = 0.0  # seconds
    steps: int = 0
    last_loss: float = math.nan
    curve: list[tuple[float, float]] = field(default_factory=list)  # minutes, accuracy

    def run(self, batches: Callable[[int], Iterator[Batch]]) -> None:
        """Train until the time is over; `batches` yields those from a step on."""
        self._resume()
        budget, saved, coming = 60 * self.minutes, self.spent, batches(self.steps)
        while self.spent < budget:
            started = perf_counter()
            if self.spent >= budget * len(self.curve) / LOOKS:
                self.curve.append((round(self.spent / 60, 2), self.look()))
            for group in self.optimizer.param_groups:
                group["lr"] = self.lr * self._share(self.spent / budget)
            self.last_loss = float(self.step(next(coming)))
            self.steps += 1
            self.spent += perf_counter() - started
            if self.spent - saved > SAVE_SECONDS or self.spent >= budget:
                self._save()
                saved = self.spent
                print(f"{self.spent / 60:.1f} min, step {self.steps}, loss {self.last_loss:.3f}", file=sys.stderr)
        if len(self.curve) <= LOOKS:
            self.curve.append((round(self.spent / 60, 2), self.look()))
            self._save()

    def _share(self, spent: float) -> float:
        """Return which share of `lr` it is when the share `spent` of the time has gone."""
        risen = min(1.0, spent / self.warmup) if self.warmup else 1.0
        return risen * 0.5 * (1 + math.cos(math.pi * spent))

    def _save(self) -> None:
        counts = {"spent": self.spent, "steps": self.steps, "curve": self.curve}
        with atomic_path(self.checkpoint) as partial:
            torch.save({**{name: part.state_dict() for name, part in self.parts.items()}, "counts": counts}, partial)

    def _resume(self) -> None:
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        if self.checkpoint.exists():
            state = torch.load(self.checkpoint, weights_only=True)
            for name, part in self.parts.items():
                part.load_state_dict(state[name])
            self.spent, self.steps = state["counts"]["spent"], state["counts"]["steps"]
            self.curve = [tuple(point) for point in state["counts"]["curve"]]
