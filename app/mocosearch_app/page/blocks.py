"""The page: a bar, the view below it and hidden fields that say what to look at (see assets/page.js).

HTML is shown through Gradio's Markdown component. Its HTML component compiles a template in the browser and
would need `unsafe-eval` in the content security policy.
"""

import logging
import random
from collections.abc import Callable

from fastapi import FastAPI

from mocosearch_app.page.care.duplicates_tab import duplicates_tab
from mocosearch_app.page.care.library_tab import library_tab
from mocosearch_app.page.detail import detail
from mocosearch_app.page.frame import frame
from mocosearch_app.page.grid import more
from mocosearch_app.page.parts import message, note
from mocosearch_app.page.search import photos
from mocosearch_app.service import looks
from mocosearch_app.service.private import quiet_gradio
from mocosearch_app.service.search import SearchService
from mocosearch_index.errors import MocosearchError

quiet_gradio()
import gradio as gr  # noqa: E402 - reads the environment when it is imported
import matplotlib  # noqa: E402, F401 - what Gradio else does amid the first look

_log = logging.getLogger(__name__)

_STYLES = ("page", "bar", "icons", "grid", "search", "panel", "care")
_HEAD = (
    "".join(f'<link rel="stylesheet" href="/page/{name}.css">' for name in _STYLES)
    + '<link rel="icon" href="/page/icon.svg" type="image/svg+xml">'
    '<script type="module" src="/page/page.js"></script>'
)
_SYSTEM_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica", "Arial", "sans-serif")
_AT_ONCE = 4  # looks answered at the same time
_WAITING = 64  # looks that may wait; more are turned away


def _theme() -> gr.themes.Base:
    """Gradio's plain theme with the fonts of the system and the page's own background."""
    return gr.themes.Base(font=_SYSTEM_FONTS, font_mono=("ui-monospace", "monospace")).set(
        body_background_fill="#fafaf9",
        body_background_fill_dark="#121214",
        body_text_color="#1c1917",
        body_text_color_dark="#f4f4f5",
    )


def build_page(service: SearchService, *, closed: bool) -> gr.Blocks:
    """Build the page of one library; `closed`: behind a password."""
    answers = Answers(service)
    page = gr.Blocks(title=f"{service.library_name} · mocosearch", analytics_enabled=False, fill_width=True)
    with page:
        _html(frame(service.library_name, closed=closed), "top")
        view, following, panel = _html("", "view"), _html("", "more"), _html("", "detail")
        page.load(answers.first, None, view, api_visibility="private", show_progress="hidden")
        _answer("look", answers.look, view)
        _answer("next", answers.more, following)
        _answer("photo", answers.detail, panel)
        _answer("act", answers.act, view)
    page.queue(max_size=_WAITING, default_concurrency_limit=_AT_ONCE, api_open=False)
    return page


def mount_page(app: FastAPI, page: gr.Blocks) -> None:
    """Put the page at the root of `app`, behind the routes that are there already."""
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        footer_links=[],
        head=_HEAD,
        mcp_server=False,
        pwa=False,
        run_history=False,
        show_error=False,
        ssr_mode=False,
        theme=_theme(),
    )


class Answers:
    """What the page's events are answered with: HTML, whatever was sent.

    Each is given a text of words, the last of which is the number of the question: an answer that was overtaken by
    the next question is known by it, and a field that did not change would not ask.
    """

    def __init__(self, service: SearchService) -> None:
        self._service = service

    def first(self) -> str:
        """Show a wall of the server's choice."""
        return self._view(looks.Wall(random.randrange(looks.WALL_SEEDS)), "0")

    def look(self, text: object) -> str:
        """Show the look "ADDRESS NUMBER"."""
        address, number = _words(text, 2)
        look = looks.parse(address)
        return _refused(text, number) if look is None else self._view(look, number)

    def more(self, text: object) -> str:
        """Show the tiles that follow: "ADDRESS START NUMBER"."""
        address, start, number = _words(text, 3)
        look = looks.parse(address)
        if not isinstance(look, looks.Wall | looks.Search) or not start.isdecimal() or len(start) > 9:
            return _refused(text, number)
        try:
            return more(self._service.view(look, int(start)), number)
        except MocosearchError as error:
            return note(str(error), number)

    def detail(self, text: object) -> str:
        """Show a photo: "ID ADDRESS NUMBER"."""
        photo, address, number = _words(text, 3)
        parsed = looks.parse(address)
        look = parsed if isinstance(parsed, looks.Wall | looks.Search) else None
        if not photo.isdecimal() or len(photo) > 18:
            return _refused(text, number)
        try:
            return detail(self._service.detail(int(photo), look), look, number)
        except MocosearchError as error:
            return note(str(error), number)

    def act(self, text: object) -> str:
        """Do "ACTION NUMBER": only ever asked for by a button, never by an address that a link could hold."""
        action, number = _words(text, 2)
        look = self._service.care.act(action)
        return _refused(text, number) if look is None else self._view(look, number)

    def _view(self, look: looks.Look, number: str) -> str:
        try:
            match look:
                case looks.Wall() | looks.Search():
                    return photos(self._service.view(look), number)
                case looks.Duplicates():
                    return duplicates_tab(self._service.care.duplicates(look), number)
                case looks.LibraryFacts():
                    return library_tab(self._service.care.library(look), number)
        except MocosearchError as error:
            return message(str(look), str(error), number)


def _answer(name: str, function: Callable[[object], str], shown: gr.Markdown) -> None:
    field = gr.Textbox(visible="hidden", elem_id=name, show_label=False)
    field.change(function, field, shown, api_visibility="private", show_progress="hidden")


def _html(value: str, elem_id: str) -> gr.Markdown:
    return gr.Markdown(value, elem_id=elem_id, sanitize_html=False, latex_delimiters=[])


def _words(text: object, count: int) -> list[str]:
    """Split what the browser sent; words that are missing are empty."""
    words = text.split(" ") if isinstance(text, str) else []
    return words if len(words) == count and words[-1].isdecimal() else [""] * count


def _refused(text: object, number: str) -> str:
    _log.warning("Refused a question that no page asks: %.60r", text)
    return message("", "There is nothing at this address: a part of the link may be missing.", number)
