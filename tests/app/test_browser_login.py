"""Signing in and out in Chromium."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from browsing import OPTIONS
from serving import Serving, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def closed(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The page of the indexed photos behind a password."""
    folder = tmp_path_factory.mktemp("closed")
    with serving(indexed, folder, environment={"MOCOSEARCH_PASSWORD": PASSWORD}) as running:
        yield running


def sign_in(page: "Page") -> None:
    page.wait_for_selector("input[type=password]:focus")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector("#view .grid")


def test_a_link_to_a_search_asks_for_the_password_and_shows_the_search_until_one_signs_out(
    closed: Serving, open_page: Callable[..., "Page"]
) -> None:
    page = open_page(f"{closed.address}/#like=5")
    assert page.title() == "Sign in · mocosearch"
    sign_in(page)
    assert page.url == f"{closed.address}/#like=5"
    page.wait_for_selector("#shown[data-look='like=5']")

    page.click("#sign-out")
    page.click("text=Sign out")
    page.wait_for_selector("input[type=password]")


def test_who_was_signed_out_meanwhile_signs_in_and_is_back_where_he_was(closed: Serving, browser: "Browser") -> None:
    context = browser.new_context(**OPTIONS["light"])
    page = context.new_page()
    page.goto(closed.address)
    sign_in(page)
    context.clear_cookies()
    page.evaluate("location.hash = 'like=5'")
    page.wait_for_selector("input[type=password]")
    sign_in(page)
    page.wait_for_selector("#shown[data-look='like=5']")
    context.close()


def test_a_link_on_another_site_finds_who_is_signed_in(closed: Serving, browser: "Browser") -> None:
    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<a href="{closed.address}/#like=5">photos</a>'.encode())

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    context = browser.new_context(**OPTIONS["light"])
    page = context.new_page()
    page.goto(closed.address)
    sign_in(page)
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        page.goto(f"http://localhost:{site.server_port}/")
        page.click("a")
        page.wait_for_selector("#shown[data-look='like=5']")
        site.shutdown()
    context.close()


@pytest.mark.parametrize("kind", ["light", "dark phone"])
def test_the_form_is_fit_for_everybody(closed: Serving, browser: "Browser", kind: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(**OPTIONS[kind], bypass_csp=True)  # for axe's own script
    page = context.new_page()
    page.goto(closed.address)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert Axe().run(page).response["violations"] == []
    page.fill("input[type=password]", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]")
    assert Axe().run(page).response["violations"] == []
    context.close()
