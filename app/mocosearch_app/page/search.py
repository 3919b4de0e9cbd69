"""The views of photos: a wall of the library, or what a search found beside the pictures it goes by."""

from html import escape

from mocosearch_app.page.grid import grid
from mocosearch_app.page.parts import icon, picture, section, words
from mocosearch_app.page.words import count
from mocosearch_app.service.looks import Filters
from mocosearch_app.service.search import MOST
from mocosearch_app.service.tiles import Tile, View

_CLEAR = '<p><button type="button" class="action clear-filters">Clear the filters</button></p>'
_CROP_HELP = (
    "The part of the picture to search with. Draw a rectangle, or press the arrow keys to place one, with Shift to "
    "resize it, and Delete to take it away."
)


def photos(shown: View, number: str) -> str:
    """Return a wall or a search as the answer to question `number`."""
    return _search(shown, number) if shown.like else _wall(shown, number)


def _wall(shown: View, number: str) -> str:
    if not shown.tiles:
        heading, text, more = _why_empty(shown)
        return section(str(shown.look), heading, words(heading, text, more), number)
    is_part = shown.look.filters != Filters()
    says = f"{shown.matching:,} of {count(shown.photos, 'photo')}" if is_part else count(shown.photos, "photo")
    heading = (
        f'<div class="heading"><h1 tabindex="-1">{says}</h1><p>Click one to find its nearest neighbors'
        f'<span class="wide">, or drop a picture anywhere</span>.</p>{_link()}</div>'
    )
    return section(str(shown.look), "All photos", heading + grid(shown), number, says=says)


def _why_empty(shown: View) -> tuple[str, str, str]:
    root = f"<code>{escape(shown.root)}</code>"
    if shown.photos and not shown.matching:
        return "No photo matches", "None of the library's photos passes these filters.", _CLEAR
    if shown.photos:
        text = f"The photos of this library are not in {root} at the moment. Is its drive connected?"
        return "No photos here", text, ""
    text = (
        f"This library is still empty. Put photos into {root} and run <code>mocosearch index</code> on it: "
        "they show up here by themselves at the next look."
    )
    return "No photos here", text, ""


def _search(shown: View, number: str) -> str:
    query = shown.like[0]
    found, of = _counted(shown)
    is_shareable = all(isinstance(tile.example.of, int) for tile in (*shown.like, *shown.unlike))
    heading = f'<div class="heading"><h1 tabindex="-1">{found}</h1><p>{of}</p>{_link() if is_shareable else ""}</div>'
    body = grid(shown) if shown.found else _why_nothing(shown)
    lowest = "" if shown.lowest is None else f' data-lowest="{shown.lowest:.4f}"'
    inner = f'<div class="search"{lowest}>{_aside(shown, query)}<div class="results">{heading}{body}</div></div>'
    return section(str(shown.look), query.name, inner, number, says=f"{found}, {of}" if of else found)


def _counted(shown: View) -> tuple[str, str]:
    """Return how many were found, and of how many."""
    if not shown.found:
        return "No neighbors", ""
    passing = " that pass the filters" if shown.matching < shown.photos else ""
    order = "the nearest" if shown.found == MOST else "nearest first,"
    of = f"{order} of {count(shown.matching, 'photo')}{passing}, in {_time(shown.milliseconds or 0)}"
    return count(shown.found, "neighbor"), of


def _why_nothing(shown: View) -> str:
    if shown.look.filters != Filters():
        return f'<div class="none"><p>No photo passes these filters.</p>{_CLEAR}</div>'
    return '<div class="none"><p>There is no other photo in the library to compare it with.</p></div>'


def _aside(shown: View, query: Tile) -> str:
    """Return the picture that is searched with, large, and all of them as chips to be taken away."""
    uploaded = isinstance(query.example.of, str)
    folder = f'<span class="folder">{escape(query.folder)}</span>' if query.folder else ""
    name = "" if uploaded else f'<p class="name">{escape(query.name)}</p>{folder}'
    return (
        f'<aside aria-label="The picture searched with">{_cropper(query)}<div class="facts">'
        f'<p class="kind">{_kind(shown, uploaded=uploaded)}</p>{name}'
        f'<p class="size">{query.width:,} × {query.height:,}</p>{_part_words(query)}{_chips(shown)}'
        '<a class="back" href="#">All photos</a></div></aside>'
    )


def _kind(shown: View, *, uploaded: bool) -> str:
    if uploaded:
        return "Your picture"
    return "Neighbors of" if len(shown.like) + len(shown.unlike) == 1 else "Neighbors of several, among them"


def _cropper(query: Tile) -> str:
    """Return the large picture, on which a rectangle can be drawn (crop.js)."""
    if query.thumbnail is None:
        return picture(query)
    box = ",".join(map(str, query.example.box or ()))
    corners = "".join(f'<span data-corner="{x} {y}"></span>' for y in ("top", "bottom") for x in ("left", "right"))
    return (
        f'<div id="cropper" role="group" tabindex="0" aria-label="{_CROP_HELP}" data-example="{query.example}" '
        f'data-box="{box}" style="--ratio:{query.width / query.height:.4f}">{picture(query, loading="eager")}'
        f'<span class="part" hidden>{corners}</span></div>'
    )


def _part_words(query: Tile) -> str:
    if query.thumbnail is None:
        return ""
    if query.example.box:
        return '<p class="hint">Searched with a part. <button type="button" class="whole">Whole picture</button></p>'
    return '<p class="hint">Draw a rectangle on it to search with that part.</p>'


def _chips(shown: View) -> str:
    if len(shown.like) + len(shown.unlike) == 1:
        return ""
    return f'<div class="examples">{_group("like", shown.like)}{_group("unlike", shown.unlike)}</div>'


def _group(kind: str, tiles: tuple[Tile, ...]) -> str:
    if not tiles:
        return ""
    heading = "More like" if kind == "like" else "Less like"
    chips = "".join(_chip(kind, tile, is_large=kind == "like" and place == 0) for place, tile in enumerate(tiles))
    return f'<p class="kind">{heading}</p><ul class="chips {kind}">{chips}</ul>'


def _chip(kind: str, tile: Tile, *, is_large: bool) -> str:
    name = escape(tile.name)
    shown = picture(tile, loading="eager")
    if kind == "like" and not is_large:
        shown = f'<button type="button" data-large="{tile.example}" title="Show {name} large">{shown}</button>'
    part = " part" if tile.example.box else ""
    return (
        f'<li class="chip{part}">{shown}<button type="button" class="remove" data-kind="{kind}" '
        f'data-remove="{tile.example}" aria-label="Take {name} away" title="Take away">{icon("cross")}</button></li>'
    )


def _link() -> str:
    return (
        f'<button type="button" class="action quiet" id="link" title="A link that shows these photos again">'
        f'{icon("link")}<span class="label">Copy link</span></button>'
    )


def _time(milliseconds: float) -> str:
    if milliseconds < 1:
        return "under 1 ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
