"""`mocosearch status`."""

import json
import os
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mocosearch.library import LibraryStatus

_LISTED = 20  # files named for each reason


@click.command("status")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every skipped file.")
def command(folder: Path | None, as_json: bool) -> None:
    """Say what a library holds: photos, skipped files and why, encoder, size on disk.

    DIR is a folder that was indexed; without it, the library of the current folder, else the one indexed last.
    """
    from mocosearch.find_library import library_in_use
    from mocosearch.library import Library
    from mocosearch_index.paths import shown

    index_folder, why = library_in_use(folder)
    with Library.open(index_folder) as library:
        click.echo(f"Library  {shown(library.root)} ({why})", err=True)
        status = library.status()
    if as_json:
        click.echo(json.dumps(_as_json(status), indent=2))
    else:
        _print(status)


def _print(status: "LibraryStatus") -> None:
    from mocosearch_index.paths import printable, shown

    counts = ", ".join(f"{count:,} {state}" for state, count in status.counts.items())
    encoder = status.encoder
    lines = [
        f"Photos   {counts}",
        f"Encoder  {encoder.description}  [{encoder.fingerprint}], {encoder.dim} numbers a photo",
        f"Index    {shown(status.folder)}, {status.size_on_disk / 1e6:,.1f} MB",
    ]
    by_reason = sorted(status.skipped, key=lambda photo: photo.reason or "")  # stable: by path within a reason
    for reason, photos in groupby(by_reason, key=lambda photo: photo.reason):
        skipped = list(photos)
        lines.append(f"Skipped  {len(skipped):,} {reason}")
        lines += [f"         '{printable(photo.path)}' ({photo.detail})" for photo in skipped[:_LISTED]]
        if len(skipped) > _LISTED:
            lines.append(f"         and {len(skipped) - _LISTED:,} more (`--json` lists all)")
    for line in lines:
        click.echo(line)


def _as_json(status: "LibraryStatus") -> dict[str, object]:
    encoder = status.encoder
    return {
        "root": str(status.root),
        "index": str(status.folder),
        "encoder": {"fingerprint": encoder.fingerprint, "dim": encoder.dim, "description": encoder.description},
        "counts": status.counts,
        "skip_reasons": status.skip_reasons,
        "skipped": [
            {"path": os.fsdecode(photo.path), "reason": photo.reason, "detail": photo.detail}
            for photo in status.skipped
        ],
        "size_on_disk": status.size_on_disk,
    }
