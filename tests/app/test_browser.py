"""The page in Chromium: what a person does with it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import all_pictures_load, until
from serving import Serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.browser

PHOTO = "#view .grid a"
SHOWN = {
    "wall": "[data-look^='wall=']",
    "upload": "[data-look^='like=u']",
    "photo": "[data-look^='like=']:not([data-look^='like=u'])",
}


def names(page: "Page") -> list[str]:
    return [str(picture.get_attribute("alt")) for picture in page.query_selector_all(f"{PHOTO} img")]


def wait_for(page: "Page", look: str) -> None:
    page.wait_for_selector(f"#shown{SHOWN[look]}")
    page.wait_for_selector("body:not(.busy)")


def test_load_upload_and_click_through_the_library(
    server: Serving, indexed: Path, open_page: Callable[..., "Page"]
) -> None:
    page = open_page(server.address)
    wait_for(page, "wall")
    assert len(names(page)) == 60
    assert "62 photos" in page.inner_text("#shown h1")
    all_pictures_load(page)

    tile = sorted(indexed.glob("River/*.jpg"))[0]
    page.set_input_files("#picture", tile)
    wait_for(page, "upload")
    assert page.title() == "Your picture · mocosearch"
    assert "Your picture" in page.inner_text("#view aside")
    assert names(page)[0] == tile.name
    first = page.inner_text("#view .grid li:first-child")
    assert float(first.split()[0]) >= 0.99
    assert "River" in first
    all_pictures_load(page)

    neighbors = names(page)
    page.click("#view .grid li:nth-child(2) a")
    wait_for(page, "photo")
    assert page.title() == f"{neighbors[1]} · mocosearch"
    assert neighbors[1] in page.inner_text("#view aside")
    assert neighbors[1] not in names(page)
    assert names(page) != neighbors
    assert "nearest first" in page.inner_text("#view .heading")
    assert page.evaluate("scrollY") == 0

    page.go_back()
    wait_for(page, "upload")
    assert names(page) == neighbors
    page.click("#view .back")
    wait_for(page, "wall")


def test_surprise_me_shuffles_and_all_photos_leads_back_to_that_wall(
    server: Serving, open_page: Callable[..., "Page"]
) -> None:
    page = open_page(server.address)
    wait_for(page, "wall")
    first, address = names(page), page.url
    page.click("#surprise")
    until(page, "address => location.href !== address", address)
    until(page, "document.querySelector('#shown').dataset.look === location.hash.slice(1)")
    second = names(page)
    assert second != first
    page.click(PHOTO)
    wait_for(page, "photo")
    page.click("#top .brand")
    wait_for(page, "wall")
    assert names(page) == second


def test_an_address_that_leads_nowhere_says_so_and_leads_back(
    server: Serving, open_page: Callable[..., "Page"]
) -> None:
    page = open_page(f"{server.address}/#<img src=x onerror=alert(1)>")
    page.wait_for_selector("#shown[data-title='Nothing to show']")
    page.evaluate("location.hash = 'like=99999'")
    page.wait_for_selector("#shown[data-look='like=99999'][data-title='Nothing to show']")
    page.click("#view .action")
    wait_for(page, "wall")


def test_dropping_and_pasting_a_picture_search_too(
    server: Serving, indexed: Path, open_page: Callable[..., "Page"]
) -> None:
    page = open_page(server.address)
    wait_for(page, "wall")
    data = list((indexed / "tall.png").read_bytes())
    give = """([kind, bytes]) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(bytes)], "tall.png", { type: "image/png" }));
        const event = kind === "paste"
            ? new ClipboardEvent(kind, { clipboardData: transfer, bubbles: true })
            : new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true });
        document.querySelector("#view").dispatchEvent(event);
    }"""
    page.evaluate(give, ["dragenter", data])
    assert page.is_visible("#drop")
    page.evaluate(give, ["drop", data])
    wait_for(page, "upload")
    assert not page.is_visible("#drop")
    dropped = page.url
    page.evaluate(give, ["paste", data])
    until(page, "address => location.href !== address", dropped)
    wait_for(page, "upload")
    assert names(page)[0] == "tall.png"

    held: list[Route] = []
    page.route("**/api/queries", lambda route: held.append(route))
    page.evaluate(give, ["paste", data])
    until(page, "document.body.classList.contains('busy')")
    page.click("#surprise")  # who goes elsewhere meanwhile is left there
    wait_for(page, "wall")
    with page.expect_response("**/api/queries"):
        held[0].continue_()
    page.wait_for_timeout(300)
    wait_for(page, "wall")


def test_what_is_no_picture_is_told_in_the_page(server: Serving, browser: "Browser", tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_text("not a picture")
    page = browser.new_page()
    page.goto(server.address)
    wait_for(page, "wall")
    before = names(page)
    page.set_input_files("#picture", tmp_path / "holiday.jpg")
    page.wait_for_selector("#notice:not([hidden])")
    assert "The picture cannot be used" in page.inner_text("#notice")
    assert page.get_attribute("#notice", "role") == "alert"
    assert names(page) == before
    page.click(PHOTO)
    wait_for(page, "photo")
    assert not page.is_visible("#notice")
    page.close()
