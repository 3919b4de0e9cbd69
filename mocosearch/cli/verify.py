"""`mocosearch verify`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mocosearch_index.records import Problem

_LISTED = 20  # problems named of each kind


@click.command("verify")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def command(folder: Path | None, as_json: bool) -> int:
    """Check all that a library has stored; repair what can be.

    The exit code is 1 when something is left that is broken. What is damaged beyond repair is forgotten, and the
    next `index` embeds those photos again. DIR is a folder that was indexed; without it, the library of the
    current folder, else the one indexed last.
    """
    from mocosearch.find_library import library_in_use

    index_folder, why = library_in_use(folder)
    problems = _verify(index_folder, why)
    if as_json:
        click.echo(json.dumps([asdict(problem) for problem in problems], indent=2))
    else:
        _print(problems)
        if not problems:
            click.echo("All is as it was written.")
    return 0 if all(problem.repaired for problem in problems) else 1


def _print(problems: "list[Problem]") -> None:
    """Print what is broken first; a lost vector file is a problem of each of its photos."""
    for word, is_repaired in (("Broken", False), ("Repaired", True)):
        found = [problem for problem in problems if problem.repaired == is_repaired]
        for problem in found[:_LISTED]:
            click.echo(f"{word:8} {problem.what}: {problem.remedy}")
        if len(found) > _LISTED:
            click.echo(f"{word:8} {len(found) - _LISTED:,} more (`--json` lists all)")


def _verify(index_folder: Path, why: str) -> "list[Problem]":
    """Repair if one can write; where one cannot, or somebody else does, only look."""
    from mocosearch.library import Library
    from mocosearch_index.errors import DiskFull, IndexLocked, NotWritable
    from mocosearch_index.image_index import ImageIndex
    from mocosearch_index.paths import shown

    repaired = []
    try:
        repaired = ImageIndex.mend(index_folder)  # what keeps it from being opened
        library = Library.open(index_folder, writable=True)
        repair = True
    except (DiskFull, IndexLocked, NotWritable) as error:
        click.echo(f"Nothing is repaired, only looked at: {error}", err=True)
        library, repair = Library.open(index_folder), False
    with library:
        click.echo(f"Library  {shown(library.root)} ({why})", err=True)
        return [*repaired, *library.verify(repair)]
