"""`mocosearch status`."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.library_settings import settings_lines
from mocosearch.cli.opened_library import how_to_change, opened_library

if TYPE_CHECKING:
    from mocosearch.library import LibraryStatus
    from mocosearch_index.records import SearchReport

_LISTED = 20  # files named for each reason


@click.command("status")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every skipped file.")
def command(folder: Path | None, as_json: bool) -> None:
    """Say what a library holds and what has changed since.

    Photos, skipped files and why, encoder, how it is searched and how well, size on disk. The folder is looked
    through for what is new, changed or gone since it was indexed; no photo is read. DIR is a folder that was
    indexed; without it, the library of the current folder, else the one indexed last.
    """
    with opened_library(folder) as library:
        status = library.status()
    if as_json:
        click.echo(json.dumps(_as_json(status), indent=2))
    else:
        _print(status)


def _print(status: "LibraryStatus") -> None:
    from mocosearch_index.paths import shown

    counts = ", ".join(f"{count:,} {state}" for state, count in status.counts.items())
    parts = ", ".join(f"{part} {size / 1e6:,.1f}" for part, size in status.bytes_by_part.items())
    encoder = status.encoder
    lines = [
        f"Photos   {counts}",
        f"Folder   {_folder(status)}",
        f"Encoder  {encoder.description}  [{encoder.fingerprint}], {encoder.dim} numbers a photo",
        *_newer_encoder(status),
        f"Search   {_search(status.search)}",
        *settings_lines(status.settings),
        f"Index    {shown(status.folder)}, {status.size_on_disk / 1e6:,.1f} MB ({parts})",
        *_skipped(status),
    ]
    for line in lines:
        click.echo(line)


def _folder(status: "LibraryStatus") -> str:
    drift = status.drift
    if drift is None:
        return f"cannot be looked at. {status.unreachable}"
    unreadable = f"; {drift.unreadable:,} folders or files cannot be looked at" if drift.unreadable else ""
    if not drift.any:
        return f"as it was indexed{unreadable}"
    kinds = {"new": drift.new, "changed": drift.changed, "gone": drift.gone, "back": drift.returned}
    words = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
    return f"{words} since it was indexed: run `mocosearch index`{unreadable}"


def _newer_encoder(status: "LibraryStatus") -> list[str]:
    if status.newer_encoder is None:
        return []
    how = how_to_change(status.folder)
    return [f"         another one was trained last [{status.newer_encoder}]; {how}"]


def _search(report: "SearchReport") -> str:
    numbers = f"{report.dim} numbers, {'whitened' if report.whitened else 'not whitened'}"  # which scores depend on
    words = [report.level, f"{report.count:,} vectors of {numbers}, {report.bytes_a_vector:,.0f} bytes each"]
    if report.cells is not None and report.cells_visited is not None:
        words.append(f"{report.cells_visited:,} of {report.cells:,} cells visited")
    if report.recall_at_10 is not None:
        words.append(f"recall@10 {report.recall_at_10:.3f} against exact search")
    return ", ".join(words)


def _skipped(status: "LibraryStatus") -> Iterator[str]:
    from mocosearch.images.decode import ADVICE
    from mocosearch_index.paths import printable

    by_reason = sorted(status.skipped, key=lambda photo: photo.reason or "")  # stable: by path within a reason
    for reason, photos in groupby(by_reason, key=lambda photo: photo.reason):
        skipped = list(photos)
        advice = ADVICE.get(reason or "", "of a newer version of mocosearch")
        yield f"Skipped  {len(skipped):,} {reason}: {advice}"
        yield from (f"         '{printable(photo.path)}' ({photo.detail})" for photo in skipped[:_LISTED])
        if len(skipped) > _LISTED:
            yield f"         and {len(skipped) - _LISTED:,} more (`--json` lists all)"


def _as_json(status: "LibraryStatus") -> dict[str, object]:
    return {
        "root": str(status.root),
        "index": str(status.folder),
        "encoder": asdict(status.encoder),
        "newer_encoder": status.newer_encoder,
        "counts": status.counts,
        "skip_reasons": status.skip_reasons,
        "skipped": [
            {"path": os.fsdecode(photo.path), "reason": photo.reason, "detail": photo.detail}
            for photo in status.skipped
        ],
        "since_indexed": None if status.drift is None else asdict(status.drift),
        "search": asdict(status.search),
        "settings": asdict(status.settings),
        "size_on_disk": status.size_on_disk,
        "size_by_part": status.bytes_by_part,
    }
