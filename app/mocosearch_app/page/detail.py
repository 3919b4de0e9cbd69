"""The inside of the panel: all that is known of one photo, and what can be done with it."""

from html import escape

from mocosearch_app.page.parts import GONE, icon
from mocosearch_app.page.words import size
from mocosearch_app.service.looks import Filters, Search, Wall
from mocosearch_app.service.tiles import Detail


def detail(shown: Detail, look: Wall | Search | None, number: str) -> str:
    """Return a photo's facts as the answer to question `number`; `look` is what the page shows behind them."""
    tile = shown.tile
    return (
        f'<section class="photo" data-id="{tile.example.of}" data-ask="{number}">{_figure(shown)}'
        f'<div class="facts"><h2>{escape(tile.name)}</h2><dl>{_facts(shown)}</dl>{_actions(shown, look)}'
        "</div></section>"
    )


def _figure(shown: Detail) -> str:
    tile = shown.tile
    if shown.preview is None:
        return f'<figure><p class="gone">{GONE}</p></figure>'
    return (
        f'<figure><img src="{shown.preview}" alt="{escape(tile.name)}" width="{tile.width}" height="{tile.height}" '
        f'style="background-image: url({tile.thumbnail})" draggable="false"></figure>'
    )


def _facts(shown: Detail) -> str:
    tile = shown.tile
    path = escape(shown.path)
    copy = (
        f'<button type="button" class="tool" data-copy="{path}" title="Copy the path" aria-label="Copy the path">'
        f"{icon('copy')}</button>"
    )
    facts = [("Path", f'<span class="path">{path}</span>{copy}')]
    if tile.score is not None:
        means = '<span class="soft">cosine similarity: 1 is the same picture; it ranks the photos of one search</span>'
        facts.append(("Score", f"<strong>{tile.score:.3f}</strong> {means}"))
    if shown.taken_at is not None:
        facts.append(("Taken", escape(shown.taken_at.replace("T", ", "))))
    facts.append(("Dimensions", f"{tile.width:,} × {tile.height:,} pixels"))
    facts.append(("Size", size(shown.size)))
    return "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)


def _actions(shown: Detail, look: Wall | Search | None) -> str:
    filters = Filters() if look is None else look.filters
    search = escape(str(Search((shown.tile.example,), (), filters)))
    buttons = [f'<a class="action" href="#{search}">{icon("lens")}Search from this</a>']
    if isinstance(look, Search):
        buttons += [
            f'<button type="button" class="action quiet" data-tool="more">{icon("plus")}More like this</button>',
            f'<button type="button" class="action quiet" data-tool="less">{icon("minus")}Less like this</button>',
        ]
    if shown.original is not None:
        buttons.append(
            f'<a class="action quiet" href="{shown.original}" target="_blank" rel="noopener">{icon("outside")}'
            "Open original</a>"
        )
    return f'<p class="buttons">{"".join(buttons)}</p>'
