"""What a person sees of a training run: the plan, then a live bar on a terminal or a line a minute elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mocosearch.training.run import Run
    from mocosearch.training.trainer import StepReport

_SECONDS_A_LINE = 60.0
_SMOOTHING = 0.9  # of the figures beside the bar


def print_plan(run: "Run", why: str) -> None:
    """Say, before the first step, what will be trained on what, for how long, and where it goes."""
    from mocosearch.training.build import negatives

    recipe, method = run.recipe, run.recipe.method
    rate = recipe.optimizer.lr * recipe.batch / recipe.optimizer.lr_batch
    time = ""
    if run.seconds_per_step is not None:
        seconds = run.total_steps * run.seconds_per_step
        time = f", about {seconds / 60:.0f} minutes" if seconds > 100 else f", about {seconds:.0f} seconds"
    lines = [
        f"Recipe   {run.recipe_name} ({why})",
        f"Photos   {run.photos:,} from {run.root}{f', {len(run.skipped)} skipped' if run.skipped else ''}",
        f"Network  {recipe.backbone.architecture}, crops of {recipe.views.crop} pixels, on {run.device}",
        f"Method   {method.name}, K {negatives(recipe):,}, T {method.temperature}",
        f"Batch    {recipe.batch} photos, learning rate {rate:.3g}",
        f"Steps    {run.total_steps:,} ({run.total_steps / run.batches.steps_per_epoch:.1f} epochs){time}",
        f"Encoder  {run.folder.encoder}",
        *(f"Note     {notice}" for notice in run.notices),
        *(f"Skipped  {line}" for line in _skipped_lines(run)),
    ]
    for line in lines:
        click.echo(line, err=True)


def _skipped_lines(run: "Run", most: int = 5) -> Iterator[str]:
    from mocosearch_index.paths import printable

    for photo in run.skipped[:most]:
        yield f"{printable(photo.path)}: {photo.reason}"
    if len(run.skipped) > most:
        yield f"... and {len(run.skipped) - most} more"


@contextmanager
def counting(label: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback (done, total) that moves a bar on a terminal and says nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    hidden = quiet or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, disable=hidden) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def training_bar(run: "Run", *, quiet: bool = False) -> Iterator[Callable[["StepReport"], None]]:
    """Yield the callback of each step: loss beside what guessing gives, accuracy, images/s, time left."""
    if quiet:
        yield lambda report: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    smooth: dict[str, float] = {}
    last_line = monotonic()

    def figures(report: "StepReport") -> str:
        rate = run.recipe.batch / report.seconds
        fill = report.metrics.get("queue_fill", 1.0)
        if fill < 1:  # random keys are easily told from real ones: loss and accuracy mean nothing yet
            return f"filling the queue {fill:.0%}  {rate:.0f} images/s"
        now = {"loss": report.loss, "rate": rate, "waited": report.waited / report.seconds, **report.metrics}
        for name, value in now.items():
            smooth[name] = _SMOOTHING * smooth.get(name, value) + (1 - _SMOOTHING) * value
        return (
            f"loss {smooth['loss']:.2f} (chance {run.chance_loss:.2f})  finds its key {smooth['accuracy']:.0%}  "
            f"{smooth['rate']:.0f} images/s  waits for data {smooth['waited']:.0%}"
        )

    columns = (
        BarColumn(24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    terminal = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), disable=not terminal) as progress:
        task = progress.add_task("", total=run.total_steps, figures="")

        def step_done(report: "StepReport") -> None:
            nonlocal last_line
            text = figures(report)
            if terminal:
                progress.update(task, completed=report.step, figures=text)
            elif monotonic() - last_line > _SECONDS_A_LINE or report.step == run.total_steps:
                click.echo(f"step {report.step:,} of {run.total_steps:,}  {text}", err=True)
                last_line = monotonic()

        yield step_done
