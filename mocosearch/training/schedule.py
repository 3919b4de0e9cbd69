"""The learning rate as a pure function of the step."""

from collections.abc import Callable
from math import cos, pi

from mocosearch.recipes import Recipe


def learning_rate(recipe: Recipe, *, total_steps: int, steps_per_epoch: int) -> Callable[[int], float]:
    """Return step -> learning rate for a run of `total_steps`, scaled linearly with the batch.

    Per epoch the rate is constant within an epoch, as the papers have it; per step it changes smoothly, which suits
    runs of a few epochs. During a warm-up it rises by the same amount in each step.
    """
    schedule = recipe.schedule
    base = recipe.optimizer.lr * recipe.batch / recipe.optimizer.lr_batch
    warmup_steps = max(1, round(schedule.warmup * total_steps))

    def rate(step: int) -> float:
        risen = base * min(1.0, (step + 1) / warmup_steps)
        if schedule.per == "epoch":
            step = step // steps_per_epoch * steps_per_epoch
        done = step / total_steps  # 0 .. 1
        if schedule.shape == "cosine":
            return risen * 0.5 * (1 + cos(pi * done))
        return risen * 0.1 ** sum(done >= milestone for milestone in schedule.milestones)

    return rate
