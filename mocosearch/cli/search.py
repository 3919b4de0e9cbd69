"""`mocosearch search`."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.numbers import NumberRange
from mocosearch.cli.opened_library import opened_library

if TYPE_CHECKING:
    from mocosearch.library import Hit, Library
    from mocosearch.library.queries import Crop, Example
    from mocosearch_index.records import PhotoFilter

_STDIN = "-"


def _crop(text: str) -> "Crop":
    from mocosearch.library.queries import Crop

    try:
        return Crop.parse(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is no part of a picture: write x,y,w,h, as 10,20,300,200 or 25%,25%,50%,50%"
        ) from error


def _since(text: str) -> str:
    return _moment(text)[0]


def _until(text: str) -> str:
    return _moment(text)[1]


def _moment(text: str) -> tuple[str, str]:
    from mocosearch.library.queries import first_and_last_second

    try:
        return first_and_last_second(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is no date: write one as 2024, 2024-05, 2024-05-31 or 2024-05-31T18:30"
        ) from error


@click.command("search")
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--not",
    "unlike",
    metavar="IMAGE",
    multiple=True,
    type=click.Path(),
    help="Look away from this picture; may be given several times.",
)
@click.option(
    "--crop",
    metavar="X,Y,W,H",
    type=_crop,
    help="Search with this part of IMAGE only: pixels of the upright picture, or percent, as 25%,25%,50%,50%.",
)
@click.option(
    "--library",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A folder that was indexed.  [default: that of the current folder, else the one indexed last]",
)
@click.option(
    "-k", metavar="N", type=click.IntRange(min=1), default=10, show_default=True, help="How many photos to find."
)
@click.option(
    "--folder",
    "within",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Only photos in this folder of the library, and below it.",
)
@click.option(
    "--since", metavar="DATE", type=_since, help="Only photos taken then or later: 2024, 2024-05, 2024-05-31."
)
@click.option("--until", metavar="DATE", type=_until, help="Only photos taken by the end of that year, month or day.")
@click.option(
    "--min-score",
    metavar="S",
    type=NumberRange(-1, 1),
    help="Only photos with at least this score: 1 is the same picture; unlike ones are around 0, from 50 photos on.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
@click.option("-0", "nul", is_flag=True, help="Print paths that end in a NUL byte, for xargs -0.")
def command(
    images: tuple[str, ...],
    unlike: tuple[str, ...],
    crop: "Crop | None",
    folder: Path | None,
    k: int,
    within: Path | None,
    since: str | None,
    until: str | None,
    min_score: float | None,
    as_json: bool,
    nul: bool,
) -> None:
    """Find the photos that look most like IMAGE, the best first.

    IMAGE is a file, or - for the bytes of one on stdin; of several the mean is taken. A photo of the library is itself
    left out of what is found; a copy of it that lies elsewhere finds it. A score of 1 means the same picture,
    one around 0 (from 50 photos on) that two have nothing in common.

    On a terminal a table is printed; into a pipe one path a line. Photos without a date pass no --since or --until.
    """
    if as_json and nul:
        raise click.UsageError("--json and -0 exclude each other: name one.")
    if crop and len(images) > 1:
        raise click.UsageError("--crop cuts one picture: name one IMAGE only.")
    if [*images, *unlike].count(_STDIN) > 1:
        raise click.UsageError("- can be given once: stdin holds one picture.")
    from mocosearch.library.recognize import folder_of
    from mocosearch_index.records import PhotoFilter

    with opened_library(folder) as library:
        part = None if within is None else folder_of(library.index, within)
        where = PhotoFilter(part, since, until, exclude=_own(library, [*images, *unlike]), min_score=min_score)
        like = [_example(library, image, crop) for image in images]
        hits = library.search(like, [_example(library, image) for image in unlike], k, where)
        if not hits:
            click.echo(_nothing_found(where), err=True)
        if as_json:
            click.echo(json.dumps([_as_json(library, hit) for hit in hits], indent=2))
        elif nul or not sys.stdout.isatty():
            _print_paths(library, hits, nul)
        elif hits:
            _print_table(hits)


def _own(library: "Library", images: list[str]) -> frozenset[int]:
    """Return the ids of the photos of the library among `images`."""
    from mocosearch.library.recognize import photo_of

    photos = (photo_of(library.index, Path(image)) for image in images if image != _STDIN)
    return frozenset(photo.id for photo in photos if photo)


def _example(library: "Library", image: str, crop: "Crop | None" = None) -> "Example":
    from mocosearch.errors import BadPicture
    from mocosearch.images.decode import MAX_BYTES, Undecodable
    from mocosearch_index.paths import shown

    source = sys.stdin.buffer.read(MAX_BYTES) if image == _STDIN else Path(image)
    try:
        return library.example(source, crop)
    except Undecodable as error:
        raise BadPicture(f"{'stdin' if image == _STDIN else shown(Path(image))}: {error}") from error


def _nothing_found(where: "PhotoFilter") -> str:
    if (where.folder, where.taken_from, where.taken_until, where.min_score) != (None,) * 4:
        dated = (where.taken_from, where.taken_until) != (None, None)
        hint = " No date filter passes photos without a date." if dated else ""
        return f"Nothing found: no other photo of the library passes the filters.{hint}"
    return "Nothing found: the library holds no other photos, or the encoder sees nothing in what is asked for."


def _as_json(library: "Library", hit: "Hit") -> dict[str, object]:
    from mocosearch.library.recognize import path_of

    # A name that is not UTF-8 holds escaped surrogates, from which os.fsencode makes the very bytes again.
    return {
        "path": str(path_of(library.index, hit.photo)),
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


def _print_paths(library: "Library", hits: list["Hit"], nul: bool) -> None:
    """Print paths as they are, byte by byte; in lines, one that holds a line break is escaped, to stay one line."""
    from mocosearch.library.recognize import path_of
    from mocosearch_index.paths import printable

    for hit in hits:
        path = os.fsencode(path_of(library.index, hit.photo))
        if nul:
            click.echo(path + b"\0", nl=False)
        else:
            click.echo(printable(path).encode() if b"\n" in path or b"\r" in path else path)
