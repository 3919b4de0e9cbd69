"""Views as HTML: every text escaped, once, here; all on one line, which Markdown leaves as it is."""

from html import escape

from mocosearch_app.service.looks import Search
from mocosearch_app.service.tiles import Detail, Tile, View

_MARK = (
    '<svg class="mark" viewBox="0 0 32 32" aria-hidden="true">'
    '<rect x="2" y="2" width="20" height="20" rx="5"/>'
    '<circle cx="20" cy="20" r="7"/><path d="m25.5 25.5 4.5 4.5"/></svg>'
)
_NARROWEST, _WIDEST = 0.6, 2.2  # aspect ratios beyond are cropped, so that a panorama does not fill the page


def header(library: str) -> str:
    """The bar at the top, the place for messages, and the cover shown while a file is dragged over it all."""
    return (
        '<header class="bar">'
        f'<a class="brand" href="#" aria-label="mocosearch: all photos">{_MARK}<span>mocosearch</span></a>'
        f'<span class="library" title="The library">{escape(library)}</span>'
        '<button type="button" class="action quiet" id="surprise">'
        'Surprise<span class="wide"> me</span></button>'
        '<label class="action"><input type="file" id="picture" accept="image/*,.heic,.heif,.avif">'
        'Search<span class="wide"> by picture</span></label></header>'
        '<p id="notice" role="alert" hidden></p>'
        '<div id="drop" aria-hidden="true" hidden><p>Drop the picture to search with it</p></div>'
    )


def view(shown: View, number: str) -> str:
    """The page below the bar."""
    if shown.like:
        return section(str(shown.look), shown.like[0].name, _search(shown, shown.like[0]), number)
    if not shown.tiles:
        return section(str(shown.look), "No photos", _words("No photos here", _why_empty(shown)), number)
    heading = (
        f'<div class="heading"><h1 tabindex="-1">{_count(shown.photos, "photo")}</h1>'
        '<p>Click one to find its nearest neighbors<span class="wide">, or drop a picture anywhere</span>.</p></div>'
    )
    return section(str(shown.look), "All photos", heading + _grid(shown), number)


def more(shown: View, number: str) -> str:
    """Tiles that follow those on the page."""
    return f'<ul class="tiles" data-ask="{number}" {_next(shown)}>{"".join(map(_item, shown.tiles))}</ul>'


def detail(shown: Detail, number: str) -> str:
    """All that is known of a photo."""
    return f'<section class="photo" data-ask="{number}">{picture(shown.tile)}<p>{escape(shown.path)}</p></section>'


def message(look: str, text: str, number: str) -> str:
    """The page below the bar when what was asked for is not there: why, and the way back."""
    back = '<p><a class="action" href="#">Back to all photos</a></p>'
    return section(look, "Nothing to show", _words("Nothing to show", escape(text), back), number)


def section(look: str, title: str, inner: str, number: str, again: int | None = None) -> str:
    """What stands below the bar; with `again`, the page asks for the same look after so many milliseconds."""
    asking = "" if again is None else f' data-again="{again}"'
    return (
        f'<section id="shown" data-look="{escape(look)}" data-title="{escape(title)}" data-ask="{number}"{asking}>'
        f"{inner}</section>"
    )


def _words(heading: str, text: str, more: str = "") -> str:
    return f'<div class="words"><h1 tabindex="-1">{heading}</h1><p>{text}</p>{more}</div>'


def _why_empty(shown: View) -> str:
    root = f"<code>{escape(shown.root)}</code>"
    if shown.photos:
        return f"The photos of this library are not in {root} at the moment. Is its drive connected?"
    return (
        f"This library is still empty. Put photos into {root} and run <code>mocosearch index</code> on it: "
        "they show up here by themselves at the next look."
    )


def _search(shown: View, query: Tile) -> str:
    uploaded = isinstance(query.example.of, str)
    name = "" if uploaded else f'<p class="name">{escape(query.name)}</p>{_folder(query)}'
    aside = (
        f'<aside aria-label="The picture searched with">{picture(query, loading="eager")}<div>'
        f'<p class="kind">{"Your picture" if uploaded else "Neighbors of"}</p>{name}'
        f'<p class="size">{query.width} × {query.height}</p>'
        '<a class="back" href="#">All photos</a></div></aside>'
    )
    heading = (
        f'<div class="heading"><h1 tabindex="-1">{_count(shown.matching, "neighbor")}</h1>'
        f"<p>nearest first, of {_count(shown.photos, 'photo')}, in {_time(shown.milliseconds or 0)}</p></div>"
    )
    alone = "<p>There is no other photo in the library to compare it with.</p>"
    found = _grid(shown) if shown.tiles else alone
    return f'<div class="search">{aside}<div class="results">{heading}{found}</div></div>'


def _grid(shown: View) -> str:
    return f'<ul class="grid" {_next(shown)}>{"".join(map(_item, shown.tiles))}</ul>'


def _next(shown: View) -> str:
    return "" if shown.next_start is None else f'data-next="{shown.next_start}"'


def _item(tile: Tile) -> str:
    ratio = min(max(tile.width / tile.height, _NARROWEST), _WIDEST)
    caption = ""
    if tile.score is not None:
        caption = (
            f'<span class="score" title="Cosine similarity">{tile.score:.3f}</span>'
            f'<span class="name">{escape(tile.name)}</span>{_folder(tile)}'
        )
    return (
        f'<li style="--ratio:{ratio:.3f}"><a href="#{Search((tile.example,))}" title="{escape(tile.path)}" '
        f'draggable="false">{picture(tile)}{caption}</a></li>'
    )


def _folder(tile: Tile) -> str:
    return f'<span class="folder">{escape(tile.folder)}</span>' if tile.folder else ""


def picture(tile: Tile, *, loading: str = "lazy") -> str:
    """A tile's picture, or words when its file is gone."""
    if tile.thumbnail is None:
        return '<span class="picture gone">This photo is gone from the folder</span>'
    return (
        f'<img class="picture" src="{tile.thumbnail}" alt="{escape(tile.name)}" loading="{loading}" '
        f'width="{tile.width}" height="{tile.height}" decoding="async" draggable="false">'
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _time(milliseconds: float) -> str:
    if milliseconds < 1:
        return "under 1 ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
