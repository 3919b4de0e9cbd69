"""The tab Duplicates: groups of copies side by side, the photo worth keeping first, and why it is.

What can have the focus has an id, by which it gets it back when the view comes anew (assets/views.js).
"""

from collections.abc import Iterator
from html import escape

from mocosearch.duplicates.find import Copy, DuplicateReport, Group
from mocosearch.duplicates.threshold import Threshold
from mocosearch_app.page.care.work import again, button, work
from mocosearch_app.page.parts import picture, section, tool
from mocosearch_app.page.words import count, size
from mocosearch_app.service.care.caretaker import Task
from mocosearch_app.service.care.tabs import COPIES, DuplicatesView
from mocosearch_app.service.looks import Duplicates, Search
from mocosearch_app.service.tiles import Tile
from mocosearch_index.records import Photo

_TASKS: tuple[Task, ...] = ("find-copies", "find-identical")
_INTRODUCTION = (
    "<p>Photos that are the same, byte for byte, or nearly: resized, recompressed, slightly cropped, turned or "
    "mirrored. Nothing is ever deleted here: what goes is yours to decide.</p>"
)


def duplicates_tab(shown: DuplicatesView, number: str) -> str:
    """Show a page of groups; `number` of the question that it answers."""
    inner = (
        f'<div class="heading"><h1 tabindex="-1">Duplicates</h1>{_INTRODUCTION}</div>'
        f'<div class="begin">{_tools(shown)}</div>{work(shown.work, _TASKS)}{_found(shown)}'
    )
    return section(str(shown.look), "Duplicates", f'<div class="care">{inner}</div>', number, again=again(shown.work))


def _tools(shown: DuplicatesView) -> str:
    looked = shown.found is not None
    export = '<a class="action quiet" id="export" href="/api/duplicates.csv" download>Export as CSV</a>'
    return (
        button("find-copies", "Look again for copies" if looked else "Look for copies", shown.work, quiet=looked)
        + button("find-identical", "Identical files only", shown.work, quiet=True)
        + (export if shown.found and shown.found.report.groups else "")
    )


def _found(shown: DuplicatesView) -> str:
    if shown.found is None:
        return "" if shown.work else '<p class="soft">Nobody has looked for copies since the server was started.</p>'
    report = shown.found.report
    old = '<p class="outcome">The library has changed since: look again to see what it holds now.</p>'
    notes = "".join(f"<li>{escape(note)}</li>" for note in _notes(report, near=shown.found.near))
    groups = "".join(_group(group, shown.tiles) for group in shown.groups)
    return (
        f"{old if shown.is_old else ''}<h2>{_summary(report)}</h2>"
        f'<ul class="notes">{notes}</ul><ol class="groups">{groups}</ol>{_pager(shown)}'
    )


def _summary(report: DuplicateReport) -> str:
    if not report.groups:
        return f"No copies among {count(report.photos, 'photo')}"
    copies = f"{report.copies:,} {'copy' if report.copies == 1 else 'copies'}"
    originals = count(len(report.groups), "photo")
    return f"{copies} of {originals} among {report.photos:,}: {size(report.bytes_to_gain)} can be freed"


def _notes(report: DuplicateReport, *, near: bool) -> Iterator[str]:
    """Yield what a person has to know to trust the groups."""
    same = sum(group.identical for group in report.groups)
    if report.groups and near:
        yield f"{count(same, 'group')} of identical files, {len(report.groups) - same:,} with near copies."
    if not near:
        yield "Only files with the same bytes were looked for."
    measured = report.calibration
    if measured is not None:
        yield _told("Photos", measured.upright)
        if report.turned:
            yield _told("Turned and mirrored photos", measured.turned)
        if not measured.upright.tells:
            yield "This encoder tells copies badly: train longer, or index with another one."
    if report.turned_left_out:
        yield "Turned and mirrored copies take long and were left out: mocosearch duplicates --turned looks for them."
    if report.unreadable:
        yield f"{count(report.unreadable, 'photo')} could not be read again: rescan the library."


def _told(what: str, threshold: Threshold) -> str:
    if threshold.likeness is None:
        return f"{what} are not told to be copies by their likeness: at none are enough pairs right."
    return (
        f"{what} count as copies from a likeness of {threshold.likeness:.3f} on: measured in this library, some "
        f"{threshold.precision:.0%} of such pairs are right, and {threshold.recall:.0%} of made copies are found."
    )


def _group(group: Group, tiles: dict[int, Tile]) -> str:
    kind = "Identical files" if group.identical else "Near copies"
    gain = size(sum(copy.photo.size for copy in group.copies))
    keeper = _member(group.keeper, tiles, f"Keep: {group.why}", "keep")
    copies = "".join(_member(copy.photo, tiles, _how(copy), "") for copy in group.copies[:COPIES])
    hidden = len(group.copies) - COPIES
    more = f'<li class="soft">and {hidden:,} more, which the export names</li>' if hidden > 0 else ""
    return (
        f'<li class="group"><h3>{kind}<span>{count(1 + len(group.copies), "photo")}, {gain} to gain</span></h3>'
        f'<ul class="members">{keeper}{copies}{more}</ul></li>'
    )


def _member(photo: Photo, tiles: dict[int, Tile], role: str, kind: str) -> str:
    tile = tiles[photo.id]
    facts = f"{photo.width} × {photo.height}, {size(photo.size)}"
    taken = f"<span>taken {escape(photo.taken_at.replace('T', ', '))}</span>" if photo.taken_at else ""
    folder = f'<span class="folder">{escape(tile.folder)}</span>' if tile.folder else ""
    return (
        f'<li class="member {kind}" data-id="{photo.id}">{_linked_picture(tile)}<span class="role">{role}</span>'
        f'<span class="name">{escape(tile.name)}</span>{folder}<span>{facts}</span>{taken}</li>'
    )


def _linked_picture(tile: Tile) -> str:
    """Return the picture; while its file is there it leads to the photo's neighbors, and a button to its details."""
    if tile.thumbnail is None:
        return picture(tile)
    photo = tile.example.of
    details = tool("info", "Details", f'data-tool="detail" id="details-{photo}"')
    link = f'<a href="#{Search((tile.example,))}" title="{escape(tile.path)}" id="photo-{photo}">{picture(tile)}</a>'
    return f'<span class="tools">{details}</span>{link}'


def _how(copy: Copy) -> str:
    if copy.identical:
        return "Identical"
    return f"{copy.likeness:.3f} alike" + (f", {copy.turn}" if copy.turn else "")


def _pager(shown: DuplicatesView) -> str:
    if shown.pages == 1:
        return ""
    page = shown.look.page
    before = _turn(page - 1, "prev", "Previous") if page > 1 else ""
    after = _turn(page + 1, "next", "Next") if page < shown.pages else ""
    return f'<nav class="pager" aria-label="Pages">{before}<span>Page {page:,} of {shown.pages:,}</span>{after}</nav>'


def _turn(page: int, rel: str, label: str) -> str:
    return f'<a class="action quiet" id="page-{rel}" rel="{rel}" href="#{Duplicates(page)}">{label}</a>'
