"""`mocosearch search`."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mocosearch.library import Hit, Library


@click.command("search")
@click.argument("image", metavar="IMAGE", type=click.Path(path_type=Path))
@click.option(
    "--library",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A folder that was indexed.  [default: that of the current folder, else the one indexed last]",
)
@click.option("-k", type=click.IntRange(min=1), default=10, show_default=True, help="How many photos to find.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def command(image: Path, folder: Path | None, k: int, as_json: bool) -> None:
    """Find the photos that look most like IMAGE, the best first.

    On a terminal a table is printed; into a pipe one path a line. A score of 1 means the same picture.
    """
    from mocosearch.errors import NoPhotos
    from mocosearch.find_library import library_in_use
    from mocosearch.images.decode import Undecodable, decode
    from mocosearch.library import Library
    from mocosearch_index.paths import is_reachable, shown

    index_folder, why = library_in_use(folder)
    with Library.open(index_folder) as library:
        if not (is_reachable(image) and image.is_file()):
            raise NoPhotos(f"There is no file {shown(image)}: name the picture to search with.")
        click.echo(f"Library  {shown(library.root)} ({why})", err=True)
        try:
            picture = decode(image, short_side=library.encoder.preprocessing.resize)
        except Undecodable as error:
            raise click.ClickException(f"{shown(image)}: {error}") from error
        hits = library.search([picture.image], k=k)
        if not hits:
            click.echo("Nothing found: the library holds no photos, or the encoder sees nothing in this one.", err=True)
        if as_json:
            click.echo(json.dumps([_as_json(library, hit) for hit in hits], indent=2))
        elif sys.stdout.isatty():
            _print_table(hits)
        else:
            _print_paths(library, hits)


def _as_json(library: "Library", hit: "Hit") -> dict[str, object]:
    # A name that is not UTF-8 holds escaped surrogates, from which os.fsencode makes the very bytes again.
    return {
        "path": _absolute(library, hit),
        "score": round(hit.score, 6),
        "id": hit.photo.id,
        "width": hit.photo.width,
        "height": hit.photo.height,
        "taken_at": hit.photo.taken_at,
    }


def _print_table(hits: list["Hit"]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mocosearch_index.paths import printable

    table = Table("Score", "Photo", box=None)
    for hit in hits:
        table.add_row(f"{hit.score:.3f}", Text(printable(hit.photo.path), overflow="fold"))
    Console().print(table)


def _print_paths(library: "Library", hits: list["Hit"]) -> None:
    """Print paths as they are, byte by byte; only one that holds a line break is escaped, to stay one line."""
    from mocosearch_index.paths import printable

    for hit in hits:
        path = os.fsencode(_absolute(library, hit))
        odd = b"\n" in path or b"\r" in path
        click.echo(printable(path).encode() if odd else path)


def _absolute(library: "Library", hit: "Hit") -> str:
    return str(library.root.absolute() / os.fsdecode(hit.photo.path))
