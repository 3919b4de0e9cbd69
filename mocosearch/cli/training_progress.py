"""What a person sees of a training run: the plan, then a live bar on a terminal or a line a minute elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click

from mocosearch.cli.lasting_stderr import lasting_stderr

if TYPE_CHECKING:
    from rich.progress import Progress

    from mocosearch.training.monitor import HealthReport
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
        *([f"From     {run.continued_from}"] if run.continued_from else []),
        f"Network  {recipe.backbone.architecture}, crops of {recipe.views.crop} pixels, on {run.device}",
        f"Method   {method.name}, K {negatives(recipe):,}, T {method.temperature}",
        f"Batch    {recipe.batch} photos, learning rate {rate:.3g}",
        f"Steps    {run.total_steps:,} ({run.total_steps / run.batches.steps_per_epoch:.1f} epochs){time}",
        f"Health   {_looks(run)}",
        f"Encoder  {run.folder.encoder}",
        *(f"Note     {notice}" for notice in run.notices),
        *(f"Skipped  {line}" for line in _skipped_lines(run)),
    ]
    for line in lines:
        click.echo(line, err=True)


def _looks(run: "Run") -> str:
    epochs = run.epochs_between_looks
    often = f"every {epochs} epochs" if epochs > 1 else "every epoch"
    if epochs * run.batches.steps_per_epoch >= run.total_steps:
        often = "at the start and the end"
    if run.probe is None:
        return often
    stray = f" ({run.probe.stray:,} in no class folder are left out)" if run.probe.stray else ""
    return f"{often}, with kNN accuracy on {len(run.probe.labels):,} photos of {run.probe.folder}{stray}"


def _skipped_lines(run: "Run", most: int = 5) -> Iterator[str]:
    from mocosearch_index.paths import printable

    for photo in run.skipped[:most]:
        yield f"{printable(photo.path)}: {photo.reason}"
    if len(run.skipped) > most:
        yield f"... and {len(run.skipped) - most} more, all in {run.folder.skipped}"


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
def training_bar(run: "Run", *, quiet: bool = False) -> Iterator["TrainingBar"]:
    """Yield what is told of each step and each look at the encoder: a bar on a terminal, else a line a minute."""
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class BarOverFigures(Progress):
        """The figures have a line of their own, which wraps where a terminal is narrow."""

        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            yield from (Text(task.fields["figures"]) for task in self.tasks)

    columns = (BarColumn(40), MofNCompleteColumn(), TextColumn("steps, left"), TimeRemainingColumn())
    terminal = sys.stderr.isatty() and not quiet
    progress = BarOverFigures(*columns, console=Console(stderr=True), disable=not terminal)
    before = "" if run.resume else "looking at the encoder before the first step"
    progress.add_task("", total=run.total_steps, figures=before)
    progress.start()
    try:
        yield TrainingBar(run, progress if terminal else None, quiet=quiet)
    finally:
        with lasting_stderr():
            progress.stop()


class TrainingBar:
    """Loss beside what guessing gives, accuracy, images/s, time spent waiting, and the newest look at the encoder."""

    def __init__(self, run: "Run", progress: "Progress | None", *, quiet: bool) -> None:
        self._run = run
        self._progress = progress  # with one task, where there is a terminal
        self._quiet = quiet
        self._smooth: dict[str, float] = {}
        self._health = ""
        self._collapsed = False
        self._last_line = monotonic()

    def step(self, report: "StepReport") -> None:
        """Show one step."""
        text = f"{self._figures(report)}{self._health}"
        if self._progress:
            self._progress.update(self._progress.task_ids[0], completed=report.step, figures=text)
        elif not self._quiet and (monotonic() - self._last_line > _SECONDS_A_LINE or self._is_last(report)):
            with lasting_stderr():
                click.echo(f"step {report.step:,} of {self._run.total_steps:,}  {text}", err=True)
            self._last_line = monotonic()

    def health(self, report: "HealthReport") -> None:
        """Show one look at the encoder; warn when it has collapsed since the last one."""
        knn = "" if report.knn_accuracy is None else f"  kNN {report.knn_accuracy:.0%}"
        self._health = f"  rank {report.effective_rank:.0f}{knn}"
        if report.collapsed and not self._collapsed and report.step:
            self._warn(_collapse(report))
        self._collapsed = report.collapsed

    def _warn(self, text: str) -> None:
        if self._progress:  # click would write into the bar
            from rich.text import Text

            with lasting_stderr():
                self._progress.console.print(Text(text, style="bold red"), soft_wrap=True)
        elif not self._quiet:
            with lasting_stderr():
                click.echo(text, err=True)

    def _is_last(self, report: "StepReport") -> bool:
        return report.step == self._run.total_steps

    def _figures(self, report: "StepReport") -> str:
        rate = self._run.recipe.batch / report.seconds
        fill = report.metrics.get("queue_fill", 1.0)
        if fill < 1:  # random keys are easily told from real ones: loss and accuracy mean nothing yet
            return f"filling the queue {fill:.0%}  {rate:.0f} images/s"
        now = {"loss": report.loss, "rate": rate, "waited": report.waited / report.seconds, **report.metrics}
        for name, value in now.items():
            self._smooth[name] = _SMOOTHING * self._smooth.get(name, value) + (1 - _SMOOTHING) * value
        smooth = self._smooth
        return (
            f"loss {smooth['loss']:.2f} (chance {self._run.chance_loss:.2f})  finds its key {smooth['accuracy']:.0%}  "
            f"{smooth['rate']:.0f} images/s  waits for data {smooth['waited']:.0%}"
        )


def _collapse(report: "HealthReport") -> str:
    return (
        f"Warning: collapsed at step {report.step:,}: every photo gets nearly the same vector (effective rank "
        f"{report.effective_rank:.1f}, feature spread {report.feature_spread:.3f}), whatever the loss says. Stop and "
        "start again with a lower learning rate (--set optimizer.lr=...), and less weight decay if you raised it."
    )
