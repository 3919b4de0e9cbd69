"""The loop over any method: forward, loss, backward, update of the query encoder, then the method's own update."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from mocosearch.errors import TrainingStopped
from mocosearch.methods import Method


class Batches(Protocol):
    """Training data as a pure function of the step."""

    def __call__(self, step: int) -> tuple[list[Tensor], Tensor]:
        """Return the views of a batch, each (B, 3, H, W), and the images' ids, int64 (B,)."""


@dataclass(frozen=True)
class StepReport:
    """What one step gave; `seconds` is the whole step and `waited` the part of it spent on getting data."""

    step: int  # steps done, this one included
    loss: float
    metrics: dict[str, float]
    lr: float
    seconds: float
    waited: float


def training_step(
    method: Method,
    optimizer: torch.optim.Optimizer,
    views: Sequence[Tensor],
    ids: Tensor,
    *,
    autocast: torch.dtype | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Take one step in the paper's order (MoCo, algorithm 1) and return the loss and the metrics, detached."""
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(views[0].device.type, dtype=autocast, enabled=autocast is not None):
        loss, metrics = method(views, ids)
    loss.backward()
    optimizer.step()
    method.after_step()
    return loss.detach(), metrics


def run_steps(
    method: Method,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    learning_rate: Callable[[int], float],
    *,
    steps: range,
    autocast: torch.dtype | None,
    on_step: Callable[[StepReport], None],
) -> None:
    """Take the given steps. `on_step` runs at each step boundary, where the state is whole and may be saved.

    Raises TrainingStopped, before `on_step`, when the loss is not finite.
    """
    method.train()
    for step in steps:
        started = perf_counter()
        views, ids = batches(step)
        waited = perf_counter() - started
        lr = learning_rate(step)
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss, metrics = training_step(method, optimizer, views, ids, autocast=autocast)
        value = float(loss)
        if not math.isfinite(value):
            raise TrainingStopped(
                f"The loss became {value} at step {step + 1}: lower the learning rate (--set optimizer.lr=...) "
                "and start again; the last checkpoint is intact."
            )
        numbers = {name: float(metric) for name, metric in metrics.items()}
        on_step(StepReport(step + 1, value, numbers, lr, perf_counter() - started, waited))
