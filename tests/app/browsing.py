"""Chromium for the tests of the page, and what a person's eyes would wait for."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOW_TO = "no Chromium to drive the page with: install it with `apt-get install chromium`"
OPTIONS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}, "has_touch": True},
    "dark phone": {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}, "has_touch": True},
}


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(HOW_TO)
        pytest.skip(HOW_TO)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Callable[..., "Page"]]:
    """Opens a page of its own; afterwards no page may have complained, or asked anything of another machine."""
    complaints: list[str] = []
    requests: list[str] = []
    contexts = []

    def open_page(address: str, kind: str = "light") -> "Page":
        context = browser.new_context(**OPTIONS[kind])
        context.set_default_timeout(60_000)  # milliseconds: torch may have to be loaded first
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))] == []


def until(page: "Page", expression: str, value: object = None) -> None:
    """Wait until `expression` is true. Playwright's own wait_for_function needs eval, which the page forbids."""
    for _ in range(300):
        if page.evaluate(expression, value):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never true: {expression}")


def all_pictures_load(page: "Page") -> None:
    """Wait until every picture of the page has arrived, those below the fold too."""
    page.evaluate("for (const picture of document.images) picture.loading = 'eager'")
    until(page, "[...document.images].every((picture) => picture.complete && picture.naturalWidth)")


def serious_faults(page: "Page") -> list[tuple[str, list[str]]]:
    """Return what axe-core finds that keeps those out who see or hear a page differently: the rule and its places."""
    from axe_playwright_python.sync_playwright import Axe

    return [
        (fault["id"], [node["html"][:150] for node in fault["nodes"]])
        for fault in Axe().run(page).response["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
