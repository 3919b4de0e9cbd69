"""What `mocosearch eval` prints and writes: a table or JSON on stdout, notices on stderr, the report into a file."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.eval.encoders import Named
from mocosearch.cli.eval.options import Choices
from mocosearch.cli.eval.photos import Photos
from mocosearch.cli.lasting_stderr import say

if TYPE_CHECKING:
    from rich.table import Table

    from mocosearch.evaluation.outcome import Outcome
    from mocosearch.evaluation.report import Evaluation
    from mocosearch.images.decode import Undecodable

_COLUMNS = 80  # in fewer the names would go first: better that a narrow terminal wraps


def tell(
    choices: Choices,
    encoders: Sequence[Named],
    outcomes: "Sequence[Outcome]",
    photos: Photos,
    skipped: "Sequence[tuple[Path, Undecodable]]",
) -> None:
    """Print the figures and write the report; what goes wrong with one does not cost the other."""
    from mocosearch.evaluation.report import Contestant, Evaluation, write_report
    from mocosearch_index.paths import shown

    classes, stray = _labels(photos)
    evaluation = Evaluation(
        choices.folder,
        photos.paths,
        classes,
        stray,
        skipped,
        tuple(
            Contestant(
                named.name, named.encoder.card.description, named.encoder.fingerprint, named.encoder.dim, outcome
            )
            for named, outcome in zip(encoders, outcomes, strict=True)
        ),
        choices.command,
        datetime.now().astimezone().isoformat(timespec="seconds"),
    )
    for notice in _notices(evaluation):
        say(f"Note     {notice}")
    try:
        _print(evaluation, as_json=choices.as_json)
    finally:  # also when nobody reads the figures any more
        if choices.report is not None:
            write_report(evaluation, choices.report)
            say(f"Report   {shown(choices.report)}")


def _print(evaluation: "Evaluation", *, as_json: bool) -> None:
    """Print the figures on stdout."""
    import json

    from rich.console import Console

    if as_json:
        click.echo(json.dumps(evaluation.as_dictionary(), indent=2, allow_nan=False))
        return
    console = Console(markup=False, emoji=False, highlight=False)  # names of encoders are no markup
    console.width = max(console.width, _COLUMNS)
    console.print(_compared(evaluation) if len(evaluation.contestants) > 1 else _alone(evaluation))


def _labels(photos: Photos) -> tuple[list[str] | None, int]:
    """Return the class of each photo, if they have one, and how many were left out because they have none."""
    from mocosearch.evaluation.labels.labelled import LabelledPhotos

    if not isinstance(photos, LabelledPhotos):
        return None, 0
    return [photos.classes[label] for label in photos.labels], photos.stray


def _notices(evaluation: "Evaluation") -> Iterator[str]:
    """Yield each notice once, with the encoders' names where it is not of all."""
    by_notice: dict[str, list[str]] = {}
    for contestant in evaluation.contestants:
        for notice in contestant.outcome.notices:
            by_notice.setdefault(notice, []).append(contestant.name)
    for notice, names in by_notice.items():
        yield notice if len(names) == len(evaluation.contestants) else f"{', '.join(names)}: {notice}"


def _alone(evaluation: "Evaluation") -> "Table":
    """A row for each figure."""
    from mocosearch.evaluation.report.words import interval, number

    table = _table("Value", "95% interval", "Chance")
    for row in evaluation.comparison:
        (cell,) = row.cells
        chance = "" if row.chance is None else number(row.chance)
        table.add_row(row.name, number(cell.value), interval(cell.interval, cell.value), chance)
    return table


def _compared(evaluation: "Evaluation") -> "Table":
    """For each figure a row for each encoder, with its difference to the first one, and one for chance."""
    from mocosearch.evaluation.report.words import interval, number, signed

    table = _table("Value", "95% interval", "Against", "95% interval", "")
    for row in evaluation.comparison:
        table.add_row(row.name, style="bold")
        for contestant, cell in zip(evaluation.contestants, row.cells, strict=True):
            against: tuple[str, ...] = ()
            if cell.difference is not None:
                difference = signed(cell.difference, cell.value)
                against = (difference, interval(cell.difference_interval, cell.value), cell.verdict or "")
            table.add_row(f"  {contestant.name}", number(cell.value), interval(cell.interval, cell.value), *against)
        if row.chance is not None:
            table.add_row("  chance", number(row.chance))
        table.add_section()
    return table


def _table(*headings: str) -> "Table":
    """Begin a table that leaves names of figures and encoders the most room that `_COLUMNS` have."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("Figure", overflow="fold")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table
