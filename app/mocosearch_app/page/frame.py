"""What stays on the page whatever is looked at: the bar, the filters, places for messages, and the dialogs."""

from html import escape

from mocosearch_app.page.parts import icon, tool

_MARK = (
    '<svg class="mark" viewBox="0 0 32 32" aria-hidden="true">'
    '<rect x="2" y="2" width="20" height="20" rx="5"/>'
    '<circle cx="20" cy="20" r="7"/><path d="m25.5 25.5 4.5 4.5"/></svg>'
)
_TABS = (("photos", "Photos", ""), ("duplicates", "Duplicates", "duplicates"), ("library", "Library", "library"))
_DATE = 'type="date" min="1826-01-01" max="2999-12-31"'  # the oldest photograph that is left
_KEYS = (
    ("← → ↑ ↓", "from photo to photo; in the panel to the one before and after"),
    ("Enter", "search with the photo"),
    ("I", "details of the photo"),
    ("+", "more like the photo"),
    ("−", "less like the photo"),
    ("Esc", "close the panel"),
    ("?", "this help"),
)


def frame(library: str, *, closed: bool = False) -> str:
    """Return all that stands above the view; `library` is the name of the library's folder.

    `closed`: people have signed in to see this, and may want to sign out.
    """
    return _bar(library, closed=closed) + _filters() + _messages() + _panel() + _help()


def _bar(library: str, *, closed: bool) -> str:
    tabs = "".join(f'<a href="#{look}" data-tab="{tab}">{name}</a>' for tab, name, look in _TABS)
    filters = tool("sliders", "Filters", 'id="ask-filters" aria-expanded="false" aria-controls="filters"')
    keys = tool("question", "Help", 'id="ask-help"')
    out = f'<a class="tool" id="sign-out" href="/login" title="Sign out" aria-label="Sign out">{icon("leave")}</a>'
    return (
        '<header class="bar">'
        f'<a class="brand" href="#" aria-label="mocosearch: all photos">{_MARK}<span>mocosearch</span></a>'
        f'<span class="library" title="The library">{escape(library)}</span>'
        f'<nav aria-label="Views">{tabs}</nav><div class="actions">'
        f'{filters}<button type="button" class="action quiet" id="surprise" aria-label="Surprise me">'
        f'{icon("shuffle")}<span class="wide">Surprise me</span></button>'
        '<label class="action" title="Search by picture">'
        '<input type="file" id="picture" accept="image/*,.heic,.heif,.avif" aria-label="Search by picture">'
        f'{icon("lens")}<span class="wide">Search by picture</span></label>'
        f"{keys}{out if closed else ''}</div></header>"
    )


def _filters() -> str:
    return (
        '<form id="filters" aria-label="Filters" hidden>'
        '<label>Folder <input name="folder" list="folders" placeholder="any" autocomplete="off" spellcheck="false">'
        '</label><datalist id="folders"></datalist>'
        f'<label>From <input name="from" {_DATE}></label><label>To <input name="to" {_DATE}></label>'
        '<label class="score">Score at least <input name="min" type="range" min="-1" max="1" step="0.001" value="-1">'
        "<output>any</output></label>"
        '<button type="button" class="action quiet clear-filters">Clear</button></form>'
    )


def _messages() -> str:
    return (
        '<p id="notice" role="alert" hidden></p><p id="status" class="unseen" role="status"></p>'
        '<div id="drop" aria-hidden="true" hidden><p>Drop the picture to search with it</p></div>'
    )


def _panel() -> str:
    turns = tool("left", "Previous photo", 'id="previous"') + tool("right", "Next photo", 'id="next-photo"')
    close = tool("cross", "Close", "data-close autofocus")
    heard = '<p id="panel-status" class="unseen" role="status"></p>'
    return f'<dialog id="panel" aria-label="Photo"><div class="inside"></div>{turns}{close}{heard}</dialog>'


def _help() -> str:
    rows = "".join(f"<dt><kbd>{key}</kbd></dt><dd>{does}</dd>" for key, does in _KEYS)
    return (
        '<dialog id="help" aria-labelledby="help-heading"><h2 id="help-heading">How to find photos</h2>'
        "<p>Click a photo to find those most like it. Drop a picture anywhere, paste one, or choose one with "
        "<strong>Search by picture</strong>. Draw a rectangle on the picture at the side to search with that part. "
        "Add more pictures with + and say what it should not be with −.</p>"
        "<p>Scores are cosine similarities of what the encoder sees: 1 is the same picture. "
        "They rank the photos of one search. Photos that have nothing in common are around 0; where the tab Library "
        "does not call the vectors whitened, many encoders give them 0.8 and more.</p>"
        f"<h3>Keys</h3><dl>{rows}</dl>{tool('cross', 'Close', 'data-close')}</dialog>"
    )
