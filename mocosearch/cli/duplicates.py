"""`mocosearch duplicates`."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.numbers import NumberRange
from mocosearch.cli.opened_library import opened_library

if TYPE_CHECKING:
    from rich.text import Text

    from mocosearch.duplicates.find import Copy, DuplicateReport
    from mocosearch.duplicates.threshold import Threshold
    from mocosearch.library import Library
    from mocosearch_index.records import Photo


@click.command("duplicates")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--identical", is_flag=True, help="Only files with the same bytes: done at once, without the encoder.")
@click.option(
    "--threshold",
    metavar="LIKENESS",
    type=NumberRange(0, 1, min_open=True),
    help="From which likeness on photos are copies.  [default: measured on copies made of the library's photos]",
)
@click.option(
    "--turned/--no-turned",
    default=None,
    help="Find turned and mirrored copies too, which reads every photo again.  "
    "[default: up to 5,000 photos, with a GPU 200,000]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(folder: Path | None, identical: bool, threshold: float | None, turned: bool | None, as_json: bool) -> None:
    """Find photos that are copies of each other; deletes nothing.

    Copies are the same bytes, or resized, recompressed, slightly cropped, turned or mirrored. Each group names a photo
    worth keeping first and says why. On a terminal a table is printed; into a pipe one path a line, with an empty line
    between groups. DIR is a folder that was indexed; without it, the library of the current folder, else the one
    indexed last.
    """
    from mocosearch.duplicates.find import find_duplicates

    if identical and (threshold is not None or turned is not None):
        raise click.UsageError("--identical compares bytes: --threshold and --turned have no place beside it.")
    with opened_library(folder) as library:
        with _bar() as progress:
            report = find_duplicates(library, near=not identical, threshold=threshold, turned=turned, progress=progress)
        for line in _notes(report):
            click.echo(line, err=True)
        if as_json:
            click.echo(json.dumps(_as_json(library, report), indent=2))
        elif sys.stdout.isatty():
            _print_table(report)
        else:
            _print_paths(library, report)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """Yield the callback of the search; on a terminal it moves a bar with the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        tasks: dict[str, TaskID] = {}

        def show(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total)
            bar.update(tasks[step], completed=done)

        yield show


def _notes(report: "DuplicateReport") -> Iterator[str]:
    """Yield what a person has to know to trust the groups, one line each."""
    measured = report.calibration
    if measured is not None:
        yield _told("Copies  ", measured.upright)
        if report.turned:
            yield _told("Turned  ", measured.turned)
        if not measured.upright.tells:
            yield "Note     this encoder tells copies badly; train longer, or index with another one (docs/encoders.md)"
    if report.turned_left_out:
        yield "Note     turned and mirrored copies were left out, for it takes long; --turned looks for them"
    if report.unreadable:
        yield f"Note     {report.unreadable:,} photos could not be read again: run `mocosearch index`"
    if not report.copies:
        yield f"Found    no copies among {report.photos:,} photos"
        return
    gain = report.bytes_to_gain / 1e6
    yield f"Found    {report.copies:,} copies of {len(report.groups):,} of {report.photos:,} photos, {gain:,.1f} MB"


def _told(what: str, threshold: "Threshold") -> str:
    if threshold.likeness is None:
        return f"{what} not told: at no likeness are enough pairs right"
    kinds = ", ".join(f"{kind} {share:.0%}" for kind, share in threshold.recall_by_kind.items())
    return (
        f"{what} from a likeness of {threshold.likeness:.3f} on: about {threshold.precision:.0%} of the pairs are "
        f"right, if one photo in ten has a copy; {threshold.recall:.0%} of made copies are found ({kinds})"
    )


def _as_json(library: "Library", report: "DuplicateReport") -> dict[str, object]:
    from dataclasses import asdict

    from mocosearch.library.recognize import path_of

    def facts(photo: "Photo") -> dict[str, object]:
        # A name that is not UTF-8 holds escaped surrogates, from which os.fsencode makes the very bytes again.
        names = ("id", "width", "height", "size", "taken_at")
        return {"path": str(path_of(library.index, photo)), **{name: getattr(photo, name) for name in names}}

    def copy_facts(copy: "Copy") -> dict[str, object]:
        how = {"identical": copy.identical, "likeness": round(copy.likeness, 6), "turn": copy.turn}
        return facts(copy.photo) | how

    return {
        "root": str(library.root),
        "photos": report.photos,
        "copies": report.copies,
        "bytes_to_gain": report.bytes_to_gain,
        "calibration": None if report.calibration is None else asdict(report.calibration),
        "turned": report.turned,
        "groups": [
            {
                "identical": group.identical,
                "keep": facts(group.keeper) | {"why": group.why},
                "copies": [copy_facts(copy) for copy in group.copies],
            }
            for group in report.groups
        ],
    }


def _print_table(report: "DuplicateReport") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mocosearch_index.paths import printable

    def row(photo: "Photo", how: str) -> tuple[str, "Text", str, str]:
        name = Text(printable(photo.path), overflow="fold")
        return how, name, f"{photo.width} x {photo.height}", f"{photo.size / 1e3:,.1f}"

    table = Table("", "Photo", "Pixels", "kB", box=None)
    for group in report.groups:
        table.add_row(*row(group.keeper, f"keep: {group.why}"), style="bold")
        for copy in group.copies:
            table.add_row(*row(copy.photo, _how(copy)))
        table.add_row()
    Console().print(table)


def _how(copy: "Copy") -> str:
    if copy.identical:
        return "  identical"
    return f"  {copy.likeness:.3f} alike" + (f", {copy.turn}" if copy.turn else "")


def _print_paths(library: "Library", report: "DuplicateReport") -> None:
    """Print paths byte by byte, the one to keep first; one that holds a line break is escaped, to stay one line."""
    from mocosearch.library.recognize import path_of
    from mocosearch_index.paths import printable

    for number, group in enumerate(report.groups):
        if number:
            click.echo()
        for photo in (group.keeper, *(copy.photo for copy in group.copies)):
            path = os.fsencode(path_of(library.index, photo))
            click.echo(printable(path).encode() if b"\n" in path or b"\r" in path else path)
