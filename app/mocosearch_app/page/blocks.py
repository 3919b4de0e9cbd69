"""The page: a bar, the view below it and a hidden field that says what to look at (see assets/page.js).

HTML is shown through Gradio's Markdown component. Its HTML component compiles a template in the browser and
would need `unsafe-eval` in the content security policy.
"""

import logging
import random

from fastapi import FastAPI

from mocosearch_app.page import render
from mocosearch_app.service import looks
from mocosearch_app.service.private import quiet_gradio
from mocosearch_app.service.search import SearchService
from mocosearch_index.errors import MocosearchError

quiet_gradio()
import gradio as gr  # noqa: E402 - reads the environment when it is imported

_log = logging.getLogger(__name__)

_HEAD = (
    '<link rel="stylesheet" href="/page/page.css">'
    '<link rel="icon" href="/page/icon.svg" type="image/svg+xml">'
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


def build_page(service: SearchService) -> gr.Blocks:
    """Build the page of one library."""

    def first_look() -> str:
        return _answer(service, str(looks.Wall(random.randrange(looks.WALL_SEEDS))))

    def look(text: object) -> str:
        return _answer(service, text)

    page = gr.Blocks(title=f"{service.library_name} · mocosearch", analytics_enabled=False, fill_width=True)
    with page:
        _html(render.header(service.library_name), "top")
        field = gr.Textbox(visible="hidden", elem_id="look", show_label=False)
        shown = _html("", "view")
        page.load(first_look, None, shown, api_visibility="private", show_progress="hidden")
        field.change(look, field, shown, api_visibility="private", show_progress="hidden")
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


def _html(value: str, elem_id: str) -> gr.Markdown:
    return gr.Markdown(value, elem_id=elem_id, sanitize_html=False, latex_delimiters=[])


def _answer(service: SearchService, text: object) -> str:
    """HTML for a look as the browser names it, with a space and a number; whatever was sent, an answer."""
    wanted = looks.parse(text.partition(" ")[0]) if isinstance(text, str) else None
    if wanted is None:
        _log.warning("Refused a look that no page asks for: %.60r", text)
        return render.message("", "The page asked for something that does not exist.")
    try:
        return render.view(service.view(wanted))
    except MocosearchError as error:
        return render.message(str(wanted), str(error))
