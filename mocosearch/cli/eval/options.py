"""What every protocol of `mocosearch eval` is told on the command line."""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from mocosearch.cli.encoders import FORMS
from mocosearch_index.paths import printable

UNTRAINED = "untrained"


@dataclass(frozen=True)
class Choices:
    """What all protocols ask for."""

    folder: Path
    encoder: str | None  # None: the one trained last
    against: tuple[str, ...]  # UNTRAINED is one of the names
    as_json: bool
    report: Path | None
    command: str  # as it was called, for the report


def protocol_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add what every protocol takes; the command gets it as its first argument, a `Choices`."""

    @wraps(function)
    def command(
        folder: Path, encoder: str | None, against: tuple[str, ...], as_json: bool, report: Path | None, **own: Any
    ) -> None:
        choices = Choices(folder, encoder, against, as_json, report, _as_called(click.get_current_context()))
        function(choices, **own)

    options = [
        click.argument("folder", metavar="DIR", type=click.Path(path_type=Path)),
        click.option(
            "--encoder",
            metavar="E",
            help=f"{FORMS}  [default: the encoder that was trained last]",
        ),
        click.option(
            "--against",
            metavar="E",
            multiple=True,
            help=f"Another encoder to compare with, on the same photos; repeatable. {UNTRAINED}: the same network "
            "with random weights.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
        click.option(
            "--report",
            metavar="FILE.html",
            type=click.Path(path_type=Path),
            help="Write a page with tables, curves and, of knn and retrieval, examples of searches, whole in one file. "
            "Replaces an older report.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


labels_option = click.option(
    "--labels",
    metavar="FILE.csv",
    type=click.Path(path_type=Path),
    help="Paths and classes of the photos, and their part.  [default: the class is the folder]",
)


def _as_called(context: click.Context) -> str:
    """Return the command with what was given, as a shell takes it, safe to show."""
    words = context.command_path.split()
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is not ParameterSource.COMMANDLINE:
            continue
        given = context.params[parameter.name or ""]
        for value in given if isinstance(given, tuple) else (given,):
            if isinstance(parameter, click.Option):
                is_on = value is not False
                words.append(parameter.opts[0] if is_on else parameter.secondary_opts[0])
            if not isinstance(value, bool):
                words.append(str(value))
    return printable(os.fsencode(shlex.join(words)))
