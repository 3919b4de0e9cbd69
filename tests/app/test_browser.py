"""The page in Chromium: what a person does with it."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import OPTIONS, all_pictures_load, until
from serving import Serving, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

PHOTO = "#view .grid a"
BRIGHTNESS = """[
    getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.querySelector("#shown h1")).color,
].map((color) => color.match(/\\d+/g).slice(0, 3).reduce((sum, each) => sum + Number(each), 0) / 3)"""
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


def test_a_link_to_a_search_opens_that_search(server: Serving, open_page: Callable[..., "Page"]) -> None:
    page = open_page(server.address)
    wait_for(page, "wall")
    page.click(PHOTO)
    wait_for(page, "photo")
    again = open_page(page.url)
    wait_for(again, "photo")
    assert names(again) == names(page)
    strange = open_page(f"{server.address}/#<img src=x onerror=alert(1)>")
    strange.wait_for_selector("#shown[data-title='Nothing to show']")
    missing = open_page(f"{server.address}/#like=99999")
    missing.wait_for_selector("#shown[data-title='Nothing to show']")
    missing.click("#view .action")
    wait_for(missing, "wall")


def test_a_search_with_the_keyboard_alone(server: Serving, open_page: Callable[..., "Page"]) -> None:
    page = open_page(server.address)
    wait_for(page, "wall")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('#view .grid a')"):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    wait_for(page, "photo")
    assert page.evaluate("document.activeElement.matches('#shown h1')")


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


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_width_and_theme_is_legible_and_never_scrolls_sideways(
    server: Serving, indexed: Path, open_page: Callable[..., "Page"], kind: str
) -> None:
    page = open_page(server.address, kind)
    for look in ("wall", "upload", "photo"):
        if look == "upload":
            page.set_input_files("#picture", indexed / "wide & <b>bold<b>.png")
        if look == "photo":
            page.click(PHOTO)
        wait_for(page, look)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        ground, text = page.evaluate(BRIGHTNESS)
        assert (ground < 40 and text > 220) if "dark" in kind else (ground > 220 and text < 40)


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


def test_a_server_or_a_photo_that_is_gone_is_told_and_the_search_goes_on_when_it_is_back(
    own_library: Path, tmp_path: Path, browser: "Browser"
) -> None:
    page = browser.new_page()
    with socket.create_server(("127.0.0.1", 0)) as free:  # not one that `serve` would take by itself for another test
        port = free.getsockname()[1]
    with serving(own_library, tmp_path, "--port", str(port)) as server:
        page.goto(server.address)
        wait_for(page, "wall")
        gone = page.get_attribute("#view .grid > li:last-child", "data-id")
        path = str(page.get_attribute("#view .grid > li:last-child a", "title"))
        assert server.stop() == 0
        page.set_input_files("#picture", own_library / "tall.png")
        page.wait_for_selector("#notice:not([hidden])")
        assert "mocosearch serve" in page.inner_text("#notice")
        page.click(PHOTO)
        assert not page.is_visible("#notice")
        page.wait_for_selector("#notice:not([hidden])")
        page.wait_for_selector("body:not(.busy)")
    with serving(own_library, tmp_path, "--port", str(port)):
        wait_for(page, "photo")
        assert not page.is_visible("#notice")

        (own_library / path).unlink()
        page.evaluate("id => { location.hash = `like=${id}`; }", gone)
        page.wait_for_selector("#view aside .gone")
        assert names(page)  # its neighbors are found all the same
    page.close()
