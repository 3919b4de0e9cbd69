"""`mocosearch index`."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mocosearch.cli.encoders import FORMS
from mocosearch.cli.index_report import print_json, print_text
from mocosearch.cli.library_settings import chosen, settings_lines, settings_options
from mocosearch.cli.main import INTERRUPTED
from mocosearch.cli.numbers import NumberRange
from mocosearch.cli.opened_library import how_to_change
from mocosearch.cli.stop_signal import stop_on_signals

if TYPE_CHECKING:
    from mocosearch.library import Library, Progress

SKIPS_UNDER_STRICT = 3
_STAGES = {
    "walking": "Looking for photos",
    "comparing": "Comparing with known photos",
    "embedding": "Embedding",
    "saving": "Preparing the search",
}


@click.command("index")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--encoder",
    metavar="E",
    help=f"{FORMS}  [default: the one in the index, else the encoder that was trained last]",
)
@click.option(
    "--index-dir",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Keep the index here, for a DIR that cannot be written to.  [default: DIR/.mocosearch]",
)
@settings_options
@click.option("--prune", is_flag=True, help="Take photos that are gone as deleted, even if it is most of them.")
@click.option("--watch", "is_watching", is_flag=True, help="Go on: follow the folder until Ctrl-C.")
@click.option(
    "--time-cap",
    type=NumberRange(1, 86_400),
    metavar="SECONDS",
    help="Longest time that one file may take.  [default: 60]",
)
@click.option("--strict", is_flag=True, help="Exit with 3 when a file of the library cannot be read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; with --watch, one a line and update.")
def command(
    folder: Path,
    encoder: str | None,
    index_dir: Path | None,
    prune: bool,
    is_watching: bool,
    time_cap: float | None,
    strict: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Embed the photos below DIR; run it again after any change.

    Only new and changed photos are embedded; moved and copied ones keep their vectors. What is done is saved every few
    seconds: after Ctrl-C, a crash or a full disk the next run goes on from there. A file that cannot be read is skipped
    and listed by `status`.

    The library keeps --include, --exclude, --search, --dim and --whiten until they are given again. It keeps its
    encoder for good: to change it, delete the index (DIR/.mocosearch) and index anew.
    """
    from mocosearch.cli.encoders import load_aloud
    from mocosearch.images.decode import TIME_CAP
    from mocosearch.library import Library

    if strict and is_watching:
        raise click.UsageError("--strict is about a run that ends: leave out --watch.")
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - keeps links, drops ".."
    library, why = Library.open_or_create(
        folder, encoder, index_dir, load_aloud, lambda settings: chosen(settings, flags)
    )
    cap = time_cap or TIME_CAP
    with stop_on_signals("Saving what is done") as stop:
        with library:
            _introduce(library, why, folder, encoder, index_dir)
            with _bar() as on_progress:
                report = library.update(on_progress, stop, prune=prune, time_cap=cap)
            _remember(library)
            counts = library.index.counts()
            if as_json:
                print_json(library, report, counts, indent=None if is_watching else 2)
            else:
                print_text(library, report, counts)
        if is_watching and not report.stopped:
            return _watch(library, stop, cap, as_json, report.kept)
    if report.stopped:
        left = "run the same command again to go on."
        click.echo(f"Stopped. {counts['indexed']:,} photos are in the index; {left}", err=True)
        return INTERRUPTED
    if counts["indexed"] and not as_json:
        click.echo("Next: mocosearch serve", err=True)
    if report.kept and not report.found:
        return 1
    return SKIPS_UNDER_STRICT if strict and (counts["skipped"] or report.unreadable) else 0


def _introduce(library: "Library", why: str, folder: Path, encoder: str | None, index_dir: Path | None) -> None:
    """Say what is used: encoder, index, settings."""
    from mocosearch.find_library import FOLDER
    from mocosearch_index.paths import shown

    own = library.index.encoder
    click.echo(f"Encoder  {own.description}  [{own.fingerprint}], {why}", err=True)
    if index_dir is None and library.index.folder != folder / FOLDER:
        click.echo(f"Index    {shown(library.index.folder)}, where it was put with --index-dir", err=True)
    for line in settings_lines(library.index.settings):
        click.echo(line, err=True)
    if encoder is None:
        _tell_of_newer_encoder(library)


def _watch(library: "Library", stop: Callable[[], bool], time_cap: float, as_json: bool, kept: int) -> int:
    """Follow the folder of a library that was brought up to date and closed, which others may use in between.

    `kept`: how many photos are gone and were said to be kept.
    """
    from mocosearch.errors import BadPattern, NoPhotos
    from mocosearch.update.watch import watch
    from mocosearch_index.errors import DiskFull, IndexLocked, NotAnIndex, NotWritable, StorageFailed
    from mocosearch_index.paths import shown

    told, stopped = "", False

    def tell(line: str) -> None:
        nonlocal told
        if line != told:
            click.echo(line, err=True)
        told = line

    def update() -> bool:
        nonlocal library, told, kept, stopped
        try:
            with library.reopened() as library:
                with _bar() as on_progress:
                    report = library.update(on_progress, stop, time_cap=time_cap)
                if report.has_news or report.kept != kept:
                    counts = library.index.counts()
                    if as_json:
                        print_json(library, report, counts, indent=None)
                    else:
                        print_text(library, report, counts)
        except (BadPattern, NoPhotos, NotAnIndex, NotWritable, IndexLocked, DiskFull, StorageFailed) as error:
            tell(f"Waiting  {error}")
            return False
        told, kept, stopped = "", report.kept, report.stopped
        return True

    click.echo(f"Watching {shown(library.root)} until Ctrl-C", err=True)
    watch(library.root, library.index.folder, update, stop, tell)
    return INTERRUPTED if stopped else 0


def _tell_of_newer_encoder(library: "Library") -> None:
    from mocosearch.user_folders import current_fingerprint

    if current_fingerprint() not in (None, library.index.encoder.fingerprint):
        click.echo(f"Note     another encoder was trained last; {how_to_change(library.index.folder)}", err=True)


@contextmanager
def _bar() -> Iterator[Callable[["Progress"], None]]:
    """Yield the callback of an update; on a terminal it moves a bar with what is being done, rate and time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    rate = TextColumn("{task.fields[rate]}")
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), rate, TimeRemainingColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=None, rate="")
        stage = None

        def show(progress: "Progress") -> None:
            nonlocal stage
            if progress.stage != stage:
                stage = progress.stage
                bar.refresh()  # as the stage before has ended
                bar.reset(task, description=_STAGES[stage])
            speed = bar.tasks[0].speed
            rate = "" if speed is None else f"{speed:,.1f} photos/s"
            bar.update(task, completed=progress.done, total=progress.total, rate=rate)

        yield show


def _remember(library: "Library") -> None:
    from mocosearch.find_library import remember_library
    from mocosearch_index.errors import DiskFull, NotWritable

    try:
        remember_library(library.root, library.index.folder)
    except (DiskFull, NotWritable) as error:  # the index is whole; it only has to be named
        click.echo(f"Note     This library will not be remembered. {error}", err=True)
