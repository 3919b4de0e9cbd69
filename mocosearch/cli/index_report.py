"""What `mocosearch index` says of an update, to a person and to a program."""

import json
import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mocosearch.library import Library, UpdateReport

_LISTED = 10  # skipped files named after an update; `status` names more


def print_text(library: "Library", report: "UpdateReport", counts: dict[str, int]) -> None:
    """Print what was done in one line on stdout; what was not, and what to do about it, on stderr."""
    from mocosearch.images.decode import ADVICE
    from mocosearch_index.paths import printable, shown

    for skip in report.skipped[:_LISTED]:
        told = f"{skip.reason}: {ADVICE[skip.reason]} ({skip.detail})"
        click.echo(f"Skipped  '{printable(skip.stamp.path)}': {told}", err=True)
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
        "moved": report.moved,
        "copied": report.copied,
        "unchanged": counts["indexed"] - report.embedded - report.moved - report.copied - report.returned,
        "back again": report.returned,
        "gone": report.missing - report.left_out,
        "left out": report.left_out,
        "skipped": counts["skipped"],
    }
    words = ", ".join(f"{count:,} {name}" for name, count in details.items() if count)
    click.echo(f"{counts['indexed']:,} photos of {shown(library.root)} are in the index ({words or 'nothing new'})")


def print_json(library: "Library", report: "UpdateReport", counts: dict[str, int], indent: int | None) -> None:
    """Print all of it as one object; `indent` None: in one line."""
    from dataclasses import asdict, fields

    own = library.index.encoder
    names = [field.name for field in fields(report) if field.name not in ("skipped", "unreadable")]
    data = {
        "root": str(library.root),
        "index": str(library.index.folder),
        "encoder": {"fingerprint": own.fingerprint, "dim": own.dim, "description": own.description},
        "counts": counts,
        "settings": asdict(library.index.settings),
        **{name: getattr(report, name) for name in names},
        "skipped": [
            {"path": os.fsdecode(photo.path), "reason": photo.reason, "detail": photo.detail}
            for photo in library.index.photos("skipped")
        ],
        "unreadable": [os.fsdecode(path) for path in report.unreadable],
    }
    click.echo(json.dumps(data, indent=indent))
