"""`mocosearch compact`."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from mocosearch.cli.opened_library import opened_library


@click.command("compact")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(folder: Path | None, as_json: bool) -> None:
    """Give back the disk space that a library no longer needs.

    Photos that are gone are forgotten: should they come back they are embedded again. The page and searches that go
    on meanwhile are not disturbed. DIR is a folder that was indexed; without it, the library of the current folder,
    else the one indexed last.
    """
    with opened_library(folder, writable=True) as library:
        report = library.compact()
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
    else:
        click.echo(
            f"{report.bytes_freed / 1e6:,.1f} MB given back: {report.forgotten:,} photos that are gone were forgotten, "
            f"{report.rows_dropped:,} vectors dropped"
        )
