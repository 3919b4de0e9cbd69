"""The report: one HTML file that needs nothing beside it, made of an evaluation by `report.html` and `style.css`."""

import base64
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from mocosearch import __version__
from mocosearch.errors import CannotReport
from mocosearch.evaluation.outcome import Curve, Examples
from mocosearch.evaluation.report import plots, words
from mocosearch.evaluation.report.contents import Evaluation
from mocosearch.evaluation.report.pictures import SIDE, pictures
from mocosearch_index.atomic import atomic_write, not_writable
from mocosearch_index.paths import printable, shown

_HERE = Path(__file__).parent
_GENERATOR = "mocosearch eval"  # by which a report is known as one of ours
_MARK = f'<meta name="generator" content="{_GENERATOR}">'.encode()
_HEAD = 2000  # bytes, which hold the mark
_STYLES = 5  # of curves, in style.css
_MOST_SKIPPED = 100  # photos named one by one
_MOST_FOUND = 10  # of a search

ABOUT = {
    "knn": (
        "Vote of the nearest neighbors",
        "Every scored photo is named by the photos nearest to it, whose votes weigh more the nearer they are. "
        "Nothing is trained: the figures are about the vectors as the encoder gives them.",
    ),
    "retrieval": (
        "Retrieval",
        "Every scored photo is searched with, and the others are ranked by cosine. What counts is how many of those "
        "that belong to it stand first.",
    ),
    "linear": (
        "Linear classifier, as in the paper",
        "A linear layer learns the classes on top of the frozen network, from cropped and mirrored photos, and is "
        "scored on photos that it has not seen: how well planes can part the classes in the network's output.",
    ),
    "linear --fast": (
        "Linear classifier on stored vectors",
        "A linear layer learns the classes from the vectors of the photos, with many learning rates and weight "
        "decays; the one that is best on a part of the training part is scored, once, on photos it has not seen.",
    ),
    "health": (
        "Health without labels",
        "How the vectors lie in their space, and whether they stay where they are when a photo is cropped, recolored "
        "and blurred. No label is looked at, so nothing here says what an encoder is good for.",
    ),
}


@dataclass(frozen=True, slots=True)
class _Found:
    place: int
    name: str
    of_class: str | None
    score: float
    hit: bool


@dataclass(frozen=True, slots=True)
class _Search:
    place: int
    name: str
    of_class: str | None
    found: tuple[_Found, ...]

    @property
    def hits(self) -> int:
        return sum(found.hit for found in self.found)


@dataclass(frozen=True, slots=True)
class _Searches:
    name: str
    style: int
    searches: tuple[_Search, ...]


def check_report_path(path: Path) -> None:
    """Raise CannotReport or NotWritable for a path where `write_report` would fail, or destroy something."""
    if not path.parent.is_dir():
        raise CannotReport(f"There is no folder {shown(path.parent)} for the report: make it, or name another.")
    if not os.access(path.parent, os.W_OK):
        raise not_writable(path.parent)
    if not os.path.lexists(path):
        return
    if not path.is_file():
        raise CannotReport(f"{shown(path)} is no file that a report could replace: name another.")
    with path.open("rb") as file:
        if _MARK not in file.read(_HEAD):
            raise CannotReport(f"{shown(path)} is there, and no report of an evaluation: name another file.")


def write_report(evaluation: Evaluation, path: Path) -> None:
    """Write the report of `evaluation`, pictures and all; an older report at `path` is replaced."""
    check_report_path(path)
    html = render(evaluation).encode()
    try:
        atomic_write(path, html)
    except FileNotFoundError as error:  # as in /proc, or the folder went meanwhile
        raise not_writable(path.parent) from error


def render(evaluation: Evaluation) -> str:
    """Return the report as HTML."""
    style = (_HERE / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    searches = list(_all_searches(evaluation))
    shown_photos = {
        place: evaluation.photos[place]
        for search in chain.from_iterable(one.searches for one in searches)
        for place in (search.place, *(found.place for found in search.found))
    }
    title, about = ABOUT.get(evaluation.protocol, (evaluation.protocol, ""))
    skipped = evaluation.skipped[:_MOST_SKIPPED]
    # Everything that is put in is escaped, but for the style sheet.
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return template.from_string((_HERE / "report.html").read_text(encoding="utf-8")).render(
        policy=f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        style=style,
        generator=_GENERATOR,
        version=__version__,
        title=title,
        about=about,
        evaluation=evaluation,
        several=len(evaluation.contestants) > 1,
        folder=printable(os.fsencode(evaluation.folder.absolute())),
        folder_name=printable(os.fsencode(evaluation.folder.absolute().name)) or "/",
        shared_facts=_shared_facts(evaluation),
        shared_notices=_shared_notices(evaluation),
        rows=[
            (row, plots.bars([(cell.value, cell.interval) for cell in row.cells], row.chance))
            for row in evaluation.comparison
        ],
        plots=list(_plots(evaluation)),
        plot_width=plots.WIDTH,
        plot_height=plots.HEIGHT,
        styles=_STYLES,
        bar_width=plots.BAR_WIDTH,
        searches=searches,
        pictures=pictures(shown_photos) if shown_photos else {},
        side=SIDE,
        skipped=[(printable(os.fsencode(path)), error) for path, error in skipped],
        unnamed=len(evaluation.skipped) - len(skipped),
        number=words.number,
        signed=words.signed,
        interval=words.interval,
        fact=words.fact,
    )


def _shared_facts(evaluation: Evaluation) -> dict[str, float | str]:
    """Return the facts that are the same for all encoders."""
    first, *others = (contestant.outcome.facts for contestant in evaluation.contestants)
    return {name: value for name, value in first.items() if all(facts.get(name) == value for facts in others)}


def _shared_notices(evaluation: Evaluation) -> list[str]:
    first, *others = (contestant.outcome.notices for contestant in evaluation.contestants)
    return [notice for notice in first if all(notice in notices for notices in others)]


def _all_searches(evaluation: Evaluation) -> Iterator[_Searches]:
    for number, contestant in enumerate(evaluation.contestants):
        if contestant.outcome.examples is not None:
            searches = tuple(_searches(evaluation, contestant.outcome.examples))
            yield _Searches(contestant.name, number % _STYLES, searches)


def _searches(evaluation: Evaluation, examples: Examples) -> Iterator[_Search]:
    for row, query in enumerate(examples.queries.tolist()):
        shown = (table[row, :_MOST_FOUND].tolist() for table in (examples.neighbors, examples.scores, examples.hits))
        found = (
            _Found(place, *_names(evaluation, place), score, hit) for place, score, hit in zip(*shown, strict=True)
        )
        yield _Search(query, *_names(evaluation, query), tuple(found))


def _names(evaluation: Evaluation, place: int) -> tuple[str, str | None]:
    """Return a photo's name and its class."""
    return evaluation.name_of(place), None if evaluation.classes is None else evaluation.classes[place]


def _plots(evaluation: Evaluation) -> Iterator[plots.Plot]:
    """Yield a plot for each title among the curves, with every encoder that has one."""
    by_title: dict[str, list[tuple[str, int, Curve]]] = {}
    for number, contestant in enumerate(evaluation.contestants):
        for curve in contestant.outcome.curves:
            by_title.setdefault(curve.title, []).append((contestant.name, number % _STYLES, curve))
    for curves in by_title.values():
        if (plot := plots.plot(curves)) is not None:
            yield plot
