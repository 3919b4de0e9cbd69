"""`mocosearch index`."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.encoders import FORMS
from mocosearch.cli.main import INTERRUPTED
from mocosearch.cli.stop_signal import stop_on_signals

if TYPE_CHECKING:
    from mocosearch.library import Library, Progress, UpdateReport

SKIPS_UNDER_STRICT = 3
_STAGES = {
    "walking": "Looking for photos",
    "comparing": "Comparing with known photos",
    "embedding": "Embedding",
    "saving": "Preparing the search",
}
_LISTED = 10  # skipped files named after an update; `status` names more


@click.command("index")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--encoder",
    metavar="E",
    help=f"{FORMS.capitalize()}: see docs/encoders.md.  "
    "[default: the one in the index, else the encoder that was trained last]",
)
@click.option(
    "--index-dir",
    type=click.Path(path_type=Path),
    help="Keep the index here, for a DIR that cannot be written to.  [default: DIR/.mocosearch]",
)
@click.option("--prune", is_flag=True, help="Take photos that are gone as deleted, even if it is most of them.")
@click.option("--strict", is_flag=True, help="Exit with 3 when a file of the library cannot be read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(folder: Path, encoder: str | None, index_dir: Path | None, prune: bool, strict: bool, as_json: bool) -> int:
    """Embed every photo below DIR; run it again whenever the folder has changed.

    Only new and changed photos are embedded. What is done is saved every few seconds: after Ctrl-C, a crash or a
    full disk the next run goes on from there. A file that cannot be read is skipped and listed by `status`.
    """
    from mocosearch.cli.encoders import load_aloud
    from mocosearch.find_library import FOLDER
    from mocosearch.library import Library
    from mocosearch_index.paths import shown

    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - keeps links, drops ".."
    library, why = Library.open_or_create(folder, encoder, index_dir, load_aloud)
    with library:
        own = library.index.encoder
        click.echo(f"Encoder  {own.description}  [{own.fingerprint}], {why}", err=True)
        if index_dir is None and library.index.folder != folder / FOLDER:
            click.echo(f"Index    {shown(library.index.folder)}, where it was put with --index-dir", err=True)
        if encoder is None:
            _tell_of_newer_encoder(library)
        with stop_on_signals("Saving what is done") as stop, _bar() as on_progress:
            report = library.update(progress=on_progress, stop=stop, prune=prune)
        _remember(library)
        counts = library.index.counts()
        if as_json:
            click.echo(json.dumps(_as_json(library, report, counts), indent=2))
        else:
            _print(library, report, counts)
    if report.stopped:
        left = "run the same command again to go on."
        click.echo(f"Stopped. {counts['indexed']:,} photos are in the index; {left}", err=True)
        return INTERRUPTED
    if report.kept and not report.found:
        return 1
    return SKIPS_UNDER_STRICT if strict and (counts["skipped"] or report.unreadable) else 0


def _tell_of_newer_encoder(library: "Library") -> None:
    from mocosearch.user_folders import current_fingerprint
    from mocosearch_index.paths import shown

    if current_fingerprint() not in (None, library.index.encoder.fingerprint):
        folder = shown(library.index.folder)
        click.echo(f"Note     another encoder was trained since; to use it, delete {folder} and index again", err=True)


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


def _print(library: "Library", report: "UpdateReport", counts: dict[str, int]) -> None:
    from mocosearch_index.paths import printable, shown

    for skip in report.skipped[:_LISTED]:
        click.echo(f"Skipped  '{printable(skip.stamp.path)}': {skip.reason}, {skip.detail}", err=True)
    if len(report.skipped) > _LISTED:
        click.echo(f"Skipped  {len(report.skipped) - _LISTED:,} more: see `mocosearch status`", err=True)
    for path in report.unreadable:
        click.echo(f"Skipped  '{printable(path)}': it cannot be looked at; what is known of it stays", err=True)
    if report.kept:
        click.echo(
            f"Kept     {report.kept:,} photos that are gone from {shown(library.root)}: connect the drive they are on, "
            "or run again with --prune if they were deleted.",
            err=True,
        )
    details = {
        "new or changed": report.embedded,
        "unchanged": counts["indexed"] - report.embedded - report.returned,
        "back again": report.returned,
        "gone": report.missing,
        "skipped": counts["skipped"],
    }
    words = ", ".join(f"{count:,} {name}" for name, count in details.items() if count)
    click.echo(f"{counts['indexed']:,} photos of {shown(library.root)} are in the index ({words or 'nothing new'})")
    if not report.stopped and counts["indexed"]:
        click.echo("Next: mocosearch serve", err=True)


def _as_json(library: "Library", report: "UpdateReport", counts: dict[str, int]) -> dict[str, object]:
    own = library.index.encoder
    return {
        "root": str(library.root),
        "index": str(library.index.folder),
        "encoder": {"fingerprint": own.fingerprint, "dim": own.dim, "description": own.description},
        "counts": counts,
        **{
            name: getattr(report, name)
            for name in ("found", "new", "embedded", "unchanged", "returned", "missing", "kept", "stopped")
        },
        "skipped": [
            {"path": os.fsdecode(photo.path), "reason": photo.reason, "detail": photo.detail}
            for photo in library.index.photos("skipped")
        ],
        "unreadable": [os.fsdecode(path) for path in report.unreadable],
    }
