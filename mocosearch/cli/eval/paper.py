"""The paper's linear protocol in front of a person: how far it is, and Ctrl-C, on one device or several."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from mocosearch.cli.eval.encoders import Named
from mocosearch.cli.lasting_stderr import say
from mocosearch.cli.stop_signal import stop_on_signals

if TYPE_CHECKING:
    from rich.progress import TaskID

    from mocosearch.evaluation.labels.labelled import LabelledPhotos
    from mocosearch.evaluation.outcome import Outcome

Tell = Callable[[str, int, int], None]  # (what is being done, done, total)

_SECONDS_A_LINE = 60


def by_the_paper(
    photos: "LabelledPhotos", encoders: Sequence[Named], epochs: int | None, devices: int | None, seed: int
) -> "list[Outcome]":
    """Train and score a linear classifier on each encoder; `epochs` and `devices`: None for the default.

    Of several the figure of each is said once it is there, for the next one may be stopped or fail, hours later.
    """
    from mocosearch.distributed.launch import device_count
    from mocosearch.linear_evaluation import evaluate_on_devices
    from mocosearch.linear_evaluation.learning import EPOCHS

    count = device_count(devices)
    outcomes = []
    for named in encoders:
        outcome = evaluate_on_devices(photos, named.encoder, count, sight=_sight, epochs=epochs or EPOCHS, seed=seed)
        outcomes.append(outcome)
        if len(encoders) > 1:
            (figure,) = outcome.figures
            say(f"{figure.name} of {named.name}: {figure.value:.4f}")
    return outcomes


@contextmanager
def _sight() -> Iterator[tuple[Tell, Callable[[], bool]]]:
    """Yield, on any rank, what is told of the progress and what asks to stop.

    The first rank's is seen: a bar for each phase on a terminal, else a line a minute.
    """
    from rich.console import Console
    from rich.progress import Progress

    from mocosearch.distributed import rank, world_size

    first, terminal = rank() == 0, sys.stderr.isatty()
    console = Console(stderr=True)
    with (
        stop_on_signals("Stopping", patient=world_size() > 1, quiet=not first) as stop,
        Progress(console=console, transient=True, disable=not (first and terminal)) as bars,
    ):
        tasks: dict[str, TaskID] = {}
        last_line = monotonic()

        def tell(what: str, done: int, total: int) -> None:
            nonlocal last_line
            if first and not terminal and monotonic() - last_line >= _SECONDS_A_LINE:
                say(f"{what}: {done:,} of {total:,}")
                last_line = monotonic()
            if what not in tasks:
                tasks[what] = bars.add_task(what)
            bars.update(tasks[what], completed=done, total=total)

        yield tell, stop
