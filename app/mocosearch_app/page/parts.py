"""Pieces of HTML that all views are made of: every text escaped, once; all on one line, which Markdown leaves be."""

from html import escape

from mocosearch_app.service.tiles import Tile

GONE = "This photo is gone from the folder"


def section(look: str, title: str, inner: str, number: str, *, says: str = "", again: int | None = None) -> str:
    """Return a view: what stands below the bar, as the answer to question `number`.

    `says` is told to those who hear the page, else the title; with `again`, the page asks for the same look after so
    many milliseconds.
    """
    asking = "" if again is None else f' data-again="{again}"'
    return (
        f'<section id="shown" data-look="{escape(look)}" data-title="{escape(title)}" '
        f'data-says="{escape(says or title)}" data-ask="{number}"{asking}>{inner}</section>'
    )


def message(look: str, text: str, number: str) -> str:
    """Return the view when what was asked for is not there: why, and the way back."""
    back = '<p><a class="action" href="#">Back to all photos</a></p>'
    return section(look, "Nothing to show", words("Nothing to show", escape(text), back), number, says=text)


def note(text: str, number: str) -> str:
    """Return words instead of a photo or of further tiles, as the answer to question `number`."""
    return f'<p class="note" data-ask="{number}">{escape(text)}</p>'


def words(heading: str, text: str, more: str = "") -> str:
    """Return what is said where no photos are; all given as HTML."""
    return f'<div class="words"><h1 tabindex="-1">{heading}</h1><p>{text}</p>{more}</div>'


def picture(tile: Tile, *, loading: str = "lazy") -> str:
    """Return a tile's picture, or words when its file is gone."""
    if tile.thumbnail is None:
        return f'<span class="picture gone">{GONE}</span>'
    return (
        f'<img class="picture" src="{tile.thumbnail}" alt="{escape(tile.name)}" loading="{loading}" '
        f'width="{tile.width}" height="{tile.height}" decoding="async" draggable="false">'
    )


def icon(name: str) -> str:
    """Return the icon called `name` in icons.css, in the color of the text; not heard."""
    return f'<span class="icon {name}" aria-hidden="true"></span>'


def tool(name: str, label: str, attributes: str) -> str:
    """Return a button that shows an icon; `attributes` say what it does (assets/*.js)."""
    return f'<button type="button" class="tool" title="{label}" aria-label="{label}" {attributes}>{icon(name)}</button>'
