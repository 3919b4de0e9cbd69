"""`mocosearch demo`."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.numbers import NumberRange
from mocosearch.cli.stop_signal import stop_on_signals
from mocosearch.cli.training_progress import counting, print_plan, training_bar

if TYPE_CHECKING:
    from mocosearch.demo import Score


@click.command("demo")
@click.option(
    "--photos", metavar="DIR", type=click.Path(path_type=Path), help="Your own folder instead of the satellite tiles."
)
@click.option(
    "--minutes",
    metavar="N",
    type=NumberRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    help="Time to train.",
)
@click.option("--keep", metavar="DIR", type=click.Path(path_type=Path), help="Keep everything in this new folder.")
@click.option("--no-serve", is_flag=True, help="Stop after the table instead of opening the page.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(1, 65535),
    help="Port of the page.  [default: 7860, or the next free one]",
)
def command(photos: Path | None, minutes: float, keep: Path | None, no_serve: bool, port: int | None) -> None:
    """Train, index, score and search real images in a few minutes.

    All of it happens in a folder of its own. 2,000 satellite tiles come with mocosearch; their labels are used for
    the table only, never for training.
    """
    from mocosearch import demo
    from mocosearch.errors import Interrupted

    with _demo_folder(keep, photos) as folder:
        with counting("Reading photos") as on_photo:
            run = demo.prepare(
                folder,
                photos,
                minutes=minutes,
                on_photo=on_photo,
                on_measuring=lambda: click.echo("Measuring how long a step takes ...", err=True),
            )
        print_plan(run, "the demo's")
        run.save_untrained(folder / "untrained")
        with stop_on_signals("Stopping at the end of this step") as stop, training_bar(run) as bar:
            try:
                run.train(on_step=bar.step, on_health=bar.health, stop=stop)
            except Interrupted:
                raise Interrupted("Stopped. The demo does not go on from here: start it again.") from None
        with counting("Indexing") as on_count:
            library = demo.index(run, folder / "index", progress=lambda p: on_count(p.done, p.total or 0))
        with library:
            _print(demo.score(library, folder / "untrained", labelled=photos is None))
            if keep:
                click.echo(f"Kept in {folder}: run/ (encoder), index/, untrained/", err=True)
            if not no_serve:
                from mocosearch_app import serve

                click.echo("Open this address in a browser; Ctrl-C ends the demo.", err=True)
                serve(library, port=port, on_ready=click.echo)


@contextmanager
def _demo_folder(keep: Path | None, photos: Path | None) -> Iterator[Path]:
    """Yield `keep`, or a temporary folder that is removed when the demo ends."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="mocosearch-demo-") as folder:
            yield Path(folder)
        return
    if photos is not None and keep.resolve().is_relative_to(photos.resolve()):
        raise click.UsageError(f"--keep {keep} lies inside the folder of photos; name a folder elsewhere.")
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise click.UsageError(f"--keep {keep} is not empty; name a new folder.")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


def _print(score: "Score") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("Encoder", *score.columns)
    for row in score.rows:
        table.add_row(row.name, *(f"{figure:.3f}" for figure in row.figures))
    Console().print(table)
    click.echo(score.explanation, err=True)
