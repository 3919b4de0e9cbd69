"""The loop over any method: forward, loss, backward, update of the query encoder, then the method's own update."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from mocosearch.devices import is_out_of_memory
from mocosearch.distributed import mean_over_ranks, world_size
from mocosearch.errors import OutOfMemory, TrainingStopped
from mocosearch.methods import Method


class Batches(Protocol):
    """Training data as a pure function of the step."""

    def __call__(self, step: int) -> tuple[list[Tensor], Tensor]:
        """Return this rank's views of a batch, each (B, 3, H, W), and the images' ids, int64 (B,)."""


@dataclass(frozen=True)
class StepReport:
    """What one step gave, over all ranks; `seconds` is the whole step and `waited` the part spent on getting data."""

    step: int  # steps done, this one included
    loss: float
    metrics: dict[str, float]
    lr: float
    seconds: float
    waited: float
    stop: bool  # a rank was asked to stop


class Trainee:
    """A method, its optimizer and the precision it runs in; on several ranks with averaged gradients."""

    def __init__(self, method: Method, optimizer: torch.optim.Optimizer, *, autocast: torch.dtype | None) -> None:
        self.method = method.train()
        self.optimizer = optimizer
        self.autocast = autocast
        self._forward = _with_averaged_gradients(method) if world_size() > 1 else method

    def step(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Take one step in the paper's order (MoCo, algorithm 1) and return the loss and the metrics, detached.

        Raises OutOfMemory. A smaller batch is not tried: it would be another training than the one asked for.
        """
        try:
            return self._step(views, ids)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise OutOfMemory(
                f"There is not enough memory on the device '{views[0].device}' for a batch of {len(views[0])}: close "
                "other programs, or start again with a smaller one (`train --set batch=64`, `eval linear --fast`)."
            ) from error

    def _step(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(views[0].device.type, dtype=self.autocast, enabled=self.autocast is not None):
            loss, metrics = self._forward(views, ids)
        loss.backward()
        self.optimizer.step()
        self.method.after_step()
        return loss.detach(), metrics


def _with_averaged_gradients(method: Method) -> torch.nn.Module:
    """Wrap a method so that backward() averages gradients over ranks.

    Buffers are left alone: every rank computes the same queue, and sending it at each step would cost 32 MiB.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # a new name for broadcast_buffers, unknown to older torch
        return DistributedDataParallel(method, broadcast_buffers=False)


def run_steps(
    trainee: Trainee,
    batches: Batches,
    learning_rate: Callable[[int], float],
    *,
    steps: range,
    stop: Callable[[], bool],
) -> Iterator[StepReport]:
    """Take the given steps and yield at each step boundary, where the state is whole and may be saved.

    All ranks yield the same reports but for their timing. Raises TrainingStopped when the loss is not finite.
    """
    for step in steps:
        started = perf_counter()
        views, ids = batches(step)
        waited = perf_counter() - started
        lr = learning_rate(step)
        for group in trainee.optimizer.param_groups:
            group["lr"] = lr
        loss, metrics = trainee.step(views, ids)
        asked = torch.full((), float(stop()), device=loss.device)
        value, stopping, *numbers = mean_over_ranks([loss, asked, *metrics.values()])  # the one wait for the device
        if not math.isfinite(value):
            raise TrainingStopped(
                f"The loss became {value} at step {step + 1}: lower the learning rate (--set optimizer.lr=...) "
                "and start again; the last checkpoint is intact."
            )
        named = dict(zip(metrics, numbers, strict=True))
        yield StepReport(step + 1, value, named, lr, perf_counter() - started, waited, stopping > 0)
