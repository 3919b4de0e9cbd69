"""Photos in rows, each in its own shape, with tools on it."""

from html import escape

from mocosearch_app.page.parts import picture, tool
from mocosearch_app.service.looks import Search
from mocosearch_app.service.tiles import Tile, View

_NARROWEST, _WIDEST = 0.6, 2.2  # aspect ratios beyond are cropped, so that a panorama does not fill the page
_SCORE = "Cosine similarity: 1 is the same picture. It ranks the photos of one search"


def grid(shown: View) -> str:
    """Return the photos of a view, and the button for more, which scrolling presses."""
    more = '<button type="button" class="action quiet more">Show more</button>' if shown.next_start else ""
    return f'<ul class="grid" {_next(shown)}>{_items(shown)}</ul>{more}'


def more(shown: View, number: str) -> str:
    """Return tiles that follow those on the page, as the answer to question `number`."""
    return f'<ul class="tiles" data-ask="{number}" {_next(shown)}>{_items(shown)}</ul>'


def _next(shown: View) -> str:
    return "" if shown.next_start is None else f'data-next="{shown.next_start}"'


def _items(shown: View) -> str:
    tools = _tools(in_search=isinstance(shown.look, Search))
    return "".join(
        _item(tile, Search((tile.example,), (), shown.look.filters), tools, is_first=shown.start == place == 0)
        for place, tile in enumerate(shown.tiles)
    )


def _item(tile: Tile, search: Search, tools: str, *, is_first: bool) -> str:
    """Return a photo that searches with itself when it is clicked; of a grid, the Tab key stops at one (keys.js)."""
    ratio = min(max(tile.width / tile.height, _NARROWEST), _WIDEST)
    score = "" if tile.score is None else f'<span class="score" title="{_SCORE}">{tile.score:.3f}</span>'
    folder = f'<span class="folder">{escape(tile.folder)}</span>' if tile.folder else ""
    return (
        f'<li data-id="{tile.example.of}" style="--ratio:{ratio:.3f}">'
        f'<a href="#{escape(str(search))}" title="{escape(tile.path)}" tabindex="{0 if is_first else -1}" '
        f'draggable="false">{picture(tile)}{score}'
        f'<span class="caption" aria-hidden="true"><span class="name">{escape(tile.name)}</span>{folder}'
        f"</span></a>{tools}</li>"
    )


def _tools(*, in_search: bool) -> str:
    kinds = [("info", "Details", "detail")]
    if in_search:
        kinds += [("plus", "More like this", "more"), ("minus", "Less like this", "less")]
    buttons = (tool(icon, label, f'data-tool="{name}" tabindex="-1"') for icon, label, name in kinds)
    return f'<span class="tools">{"".join(buttons)}</span>'
