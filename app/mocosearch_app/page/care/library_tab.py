"""The tab Library: what the library holds, how it is searched, its encoder and how that was trained."""

import os
from collections.abc import Iterable
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from mocosearch.library import LibraryStatus
from mocosearch_app.page.care.curves import curves, figure
from mocosearch_app.page.care.work import AGAIN, again, button, work
from mocosearch_app.page.parts import section
from mocosearch_app.page.words import count, listed, size
from mocosearch_app.service.care.caretaker import Task
from mocosearch_app.service.care.tabs import LibraryView
from mocosearch_app.service.care.training_run import TrainingRun
from mocosearch_index.paths import printable
from mocosearch_index.records import Photo, SearchReport, SearchSettings

if TYPE_CHECKING:
    from mocosearch.encoders import EncoderFacts

_TASKS: tuple[Task, ...] = ("rescan",)
_LISTED = 100  # files named for each reason
_LEVELS = {
    "exact": "exact: with every photo",
    "ivf": "in cells: only with the photos in the nearest ones",
    "compressed": "in cells, with compressed vectors that are compared again in full",
}
_HEALTH = {
    "effective_rank": ("Effective rank", "directions that the vectors use; higher is richer, 1 is a collapse"),
    "feature_spread": ("Feature spread", "how much the vectors differ; 0 is a collapse"),
    "uniformity": ("Uniformity", "how evenly they cover the sphere; lower is more even, 0 is a collapse"),
    "alignment": ("Alignment", "squared distance of two views of a photo; lower is closer"),
    "knn_accuracy": ("Probe", "labelled photos whose nearest neighbors vote for their class"),
}

Rows = Iterable[tuple[str, str]]  # name and HTML


def library_tab(shown: LibraryView, number: str) -> str:
    """Show the library; `number` of the question that this answers."""
    known = shown.holdings
    if known is None:
        waiting = '<p class="soft">Looking through the library …</p>'
        inner = f'<div class="heading"><h1 tabindex="-1">Library</h1></div>{work(shown.work, _TASKS)}{waiting}'
        return section(str(shown.look), "Library", f'<div class="care">{inner}</div>', number, again=AGAIN)
    status = known.status
    inner = (
        f'<div class="heading"><h1 tabindex="-1">Library</h1><p>{_path(status.root.absolute())}</p></div>'
        f'<div class="begin">{button("rescan", "Rescan the folder", shown.work)}</div>{work(shown.work, _TASKS)}'
        f'<div class="cards">{_photos(status)}{_search(status.search, status.settings.search)}'
        f"{_encoder(status, known.encoder)}{_disk(status)}</div>{_training(known.run)}{_skipped(status)}"
    )
    return section(str(shown.look), "Library", f'<div class="care">{inner}</div>', number, again=again(shown.work))


def _photos(status: LibraryStatus) -> str:
    rows = [(state.capitalize(), f"{number:,}") for state, number in status.counts.items()]
    rows.append(("Folder", escape(_drift(status))))
    patterns = (("Taken in", status.settings.include), ("Left out", status.settings.exclude))
    rows += [(name, ", ".join(map(_path, given))) for name, given in patterns if given]
    return _card("Photos", rows)


def _drift(status: LibraryStatus) -> str:
    drift = status.drift
    if drift is None:
        return f"cannot be looked at. {status.unreachable}"
    counts = {"new": drift.new, "changed": drift.changed, "gone": drift.gone, "back": drift.returned}
    words = f"{listed(counts)} since it was indexed: rescan it" if drift.any else "as it was indexed"
    return f"{words}; {drift.unreadable:,} folders or files cannot be looked at" if drift.unreadable else words


def _search(report: SearchReport, chosen: SearchSettings) -> str:
    why = "as chosen" if chosen.level else "by the number of photos"
    rows = [("Compares", f"{_LEVELS[report.level]} <small>{why}</small>")]
    if report.cells is not None:
        rows.append(("Cells", f"{report.cells_visited or 0:,} of {report.cells:,} are visited"))
    recall = "all of them" if report.recall_at_10 is None else f"{report.recall_at_10:.1%}"
    rows.append(("Of the 10 nearest, finds", f"{recall} <small>recall@10 against exact search</small>"))
    numbers = count(report.dim, "number") + (", whitened" if report.whitened else "")
    rows.append(("Vectors", f"{report.count:,} of {numbers}"))
    memory = f"{size(report.count * report.bytes_a_vector)} <small>{report.bytes_a_vector:,.0f} bytes a photo</small>"
    rows.append(("Memory", memory))
    return _card("Search", rows)


def _encoder(status: LibraryStatus, facts: "EncoderFacts | None") -> str:
    identity = status.encoder
    rows = [("What", escape(identity.description)), ("Copy", "missing or damaged: run mocosearch verify")]
    if facts is not None:
        rows = list(_card_rows(facts))
    rows.append(("Gives", f"{identity.dim:,} numbers a photo"))
    rows.append(("Fingerprint", f"<code>{escape(identity.fingerprint)}</code>"))
    if status.newer_encoder is not None:
        newer = f"another, <code>{escape(status.newer_encoder)}</code>; mocosearch index tells how to use it"
        rows.append(("Trained last", newer))
    return _card("Encoder", rows)


def _card_rows(facts: "EncoderFacts") -> Rows:
    card, side = facts.card, facts.preprocessing.crop
    yield "Architecture", escape(card.architecture) + (", small stem" if card.small_stem else "")
    yield "Recipe", escape(card.recipe)
    trained_on = _path(card.trained_on)
    yield "Trained on", trained_on if card.photos is None else f"{count(card.photos, 'photo')} of {trained_on}"
    if card.steps is not None:
        yield "Steps", f"{card.steps:,}"
    if card.created:
        yield "Created", escape(card.created.replace("T", ", ").replace("+00:00", " UTC"))
    yield "Sees", f"{side} × {side} pixels"


def _disk(status: LibraryStatus) -> str:
    parts = sorted(status.bytes_by_part.items(), key=lambda part: -part[1])
    rows = [("In all", size(status.size_on_disk)), *((part.capitalize(), size(taken)) for part, taken in parts)]
    return _card("Index on the disk", [("Place", _path(status.folder.absolute())), *rows])


def _training(run: TrainingRun | None) -> str:
    if run is None:
        return ""
    health = [
        (name, f"{figure(key, run.health[key])} <small>{explained}</small>")
        for key, (name, explained) in _HEALTH.items()
        if key in run.health
    ]
    return (
        f'<section class="training"><h2>How the encoder was trained</h2><p class="soft">{count(run.steps, "step")}, in '
        f'<code>{escape(run.folder)}</code></p><div class="curves">{curves(run)}</div>'
        f"{_card('Quality at the end', health) if health else ''}</section>"
    )


def _skipped(status: LibraryStatus) -> str:
    if not status.skipped:
        return ""
    by_reason = sorted(status.skipped, key=lambda photo: photo.reason or "")  # stable: by path within a reason
    reasons = "".join(
        _reason(reason or "", list(photos)) for reason, photos in groupby(by_reason, key=lambda photo: photo.reason)
    )
    return f'<section class="skipped"><h2>{count(len(status.skipped), "file")} skipped</h2>{reasons}</section>'


def _reason(reason: str, photos: list[Photo]) -> str:
    files = "".join(_file(photo) for photo in photos[:_LISTED])
    hidden = len(photos) - _LISTED
    more = f'<li class="soft">and {hidden:,} more: mocosearch status --json lists all</li>' if hidden > 0 else ""
    name = escape(reason)
    return (
        f'<details id="skipped-{name}"><summary id="why-{name}">{name}<span>{count(len(photos), "file")}</span>'
        f"</summary><ul>{files}{more}</ul></details>"
    )


def _file(photo: Photo) -> str:
    detail = " ".join((photo.detail or "").split())
    return f'<li>{_path(photo.path)} <span class="soft">{escape(detail)}</span></li>'


def _path(path: str | bytes | os.PathLike[str]) -> str:
    return f"<code>{escape(printable(os.fsencode(path)))}</code>"


def _card(title: str, rows: Rows) -> str:
    return (
        f'<section class="card"><h2>{title}</h2><dl>{"".join(_row(name, html) for name, html in rows)}</dl></section>'
    )


def _row(name: str, html: str) -> str:
    return f"<div><dt>{name}</dt><dd>{html}</dd></div>"
