"""The panel of a photo, the keyboard, and what those hear who do not see the page, in Chromium."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import all_pictures_load, serious_faults, until
from serving import Serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

OpenPage = Callable[..., "Page"]
BRIGHTNESS = """[
    getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.querySelector("#shown h1")).color,
].map((color) => color.match(/\\d+/g).slice(0, 3).reduce((sum, each) => sum + Number(each), 0) / 3)"""
FOCUSED = "document.activeElement.closest('#view .grid > li')?.dataset.id"


def wait_for(page: "Page", look: str) -> None:
    page.wait_for_selector(f"#shown{look}")
    page.wait_for_selector("body:not(.busy)")


def ids(page: "Page") -> list[str]:
    return [str(tile.get_attribute("data-id")) for tile in page.query_selector_all("#view .grid > li")]


def test_the_panel_tells_all_of_a_photo_and_leads_on(server: Serving, indexed: Path, open_page: OpenPage) -> None:
    page = open_page(server.address)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    wait_for(page, "[data-look^='wall=']")
    page.set_input_files("#picture", indexed / "tall.png")
    wait_for(page, "[data-look^='like=u']")
    first, second = ids(page)[:2]
    page.hover("#view .grid > li")
    page.click("#view .grid > li [data-tool=detail]")
    page.wait_for_selector(f"#panel [data-id='{first}']")
    facts = page.inner_text("#panel .facts")
    for words in ("tall.png", str(indexed / "tall.png"), "1.000", "300 × 900 pixels"):
        assert words in facts
    assert f"open={first}" in page.url
    all_pictures_load(page)

    page.click("#panel [data-copy]")
    page.wait_for_selector("#panel .done")
    assert page.evaluate("navigator.clipboard.readText()") == str(indexed / "tall.png")
    original = page.request.get(server.address + str(page.get_attribute("#panel a[target=_blank]", "href")))
    assert original.headers["content-type"] == "image/png"
    assert original.body() == (indexed / "tall.png").read_bytes()

    assert not page.is_visible("#previous")
    page.click("#next-photo")
    page.wait_for_selector(f"#panel [data-id='{second}']")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(f"#panel [data-id='{first}']")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"#panel [data-id='{second}']")

    page.click("#panel [data-tool=less]")
    wait_for(page, f"[data-look$='unlike={second}']")
    assert not page.is_visible("#panel")
    page.go_back()  # to the panel, as it was
    page.wait_for_selector(f"#panel [data-id='{second}']")
    page.wait_for_selector("#previous")
    page.click("#panel a.action:not(.quiet)")
    wait_for(page, f"[data-look='like={second}']")
    assert not page.is_visible("#panel")


def test_the_panel_is_closed_by_escape_back_and_a_click_beside_it_and_opened_by_a_link(
    server: Serving, open_page: OpenPage
) -> None:
    page = open_page(server.address)
    wait_for(page, "[data-look^='wall=']")
    address = page.url
    photo = ids(page)[2]
    for close in (
        lambda: page.keyboard.press("Escape"),
        page.go_back,
        lambda: page.mouse.click(5, 5),
        lambda: page.click("#panel [data-close]"),
    ):
        page.hover("#view .grid > li:nth-child(3)")
        page.click("#view .grid > li:nth-child(3) [data-tool=detail]")
        page.wait_for_selector(f"#panel [data-id='{photo}']")
        close()
        page.wait_for_selector("#panel", state="hidden")
        until(page, "address => location.href === address", address)
        assert page.evaluate(FOCUSED) == photo

    linked = open_page(f"{address}&open={photo}")
    linked.wait_for_selector(f"#panel [data-id='{photo}']")
    linked.keyboard.press("Escape")
    linked.wait_for_selector("#panel", state="hidden")
    until(linked, "address => location.href === address", address)  # the dialog says that it closed a moment later
    linked.evaluate("location.hash += '&open=99999'")
    linked.wait_for_selector("#panel .note")


def test_everything_can_be_done_with_the_keyboard(server: Serving, open_page: OpenPage) -> None:
    page = open_page(server.address)
    wait_for(page, "[data-look^='wall=']")
    wall = ids(page)
    press = page.keyboard.press
    press("?")
    assert page.is_visible("#help")
    press("Escape")
    assert not page.is_visible("#help")
    page.evaluate("document.activeElement.blur()")

    for _ in range(20):
        press("Tab")
        if page.evaluate(FOCUSED):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.evaluate("document.activeElement.blur()")
    press("ArrowDown")
    assert page.evaluate(FOCUSED) == wall[0]
    press("ArrowRight")
    press("ArrowRight")
    assert page.evaluate(FOCUSED) == wall[2]
    press("ArrowDown")
    below = wall.index(page.evaluate(FOCUSED))
    assert below > 3
    press("ArrowUp")
    assert wall.index(page.evaluate(FOCUSED)) < below
    press("Home")
    assert page.evaluate(FOCUSED) == wall[0]
    press("i")
    page.wait_for_selector(f"#panel [data-id='{wall[0]}']")
    assert page.query_selector("#panel :focus")
    press("ArrowRight")
    page.wait_for_selector(f"#panel [data-id='{wall[1]}']")
    page.focus("#previous")
    press("Enter")  # to the first, where this button goes
    page.wait_for_selector(f"#panel [data-id='{wall[0]}']")
    assert page.query_selector("#panel :focus:enabled")
    assert page.inner_text("#panel-status") == page.inner_text("#panel h2")
    press("ArrowRight")
    page.wait_for_selector(f"#panel [data-id='{wall[1]}']")
    press("Escape")
    until(page, f"id => {FOCUSED} === id", wall[1])
    press("Enter")
    wait_for(page, f"[data-look='like={wall[1]}']")

    press("ArrowDown")
    found = ids(page)
    assert page.evaluate(FOCUSED) == found[0]
    press("+")
    wait_for(page, f"[data-look='like={wall[1]}&like={found[0]}']")
    press("ArrowRight")
    press("-")
    wait_for(page, "[data-look*='unlike=']")
    assert "neighbors, nearest first" in page.inner_text("#status")
    assert page.evaluate("document.activeElement.matches('#shown h1')")


def test_a_phone_shows_a_photo_and_its_neighbors_by_touch(server: Serving, open_page: OpenPage) -> None:
    page = open_page(server.address, "dark phone")
    wait_for(page, "[data-look^='wall=']")
    for width in (360, 320):
        page.set_viewport_size({"width": width, "height": 640})
        assert page.locator(".bar").bounding_box()["height"] < 110  # type: ignore[index]
    photo = ids(page)[1]
    page.tap("#view .grid > li:nth-child(2) [data-tool=detail]")
    page.wait_for_selector(f"#panel [data-id='{photo}']")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.tap("#panel a.action")
    wait_for(page, f"[data-look='like={photo}']")
    page.tap("#view .grid > li:nth-child(2) a")
    wait_for(page, f"[data-look^='like=']:not([data-look='like={photo}'])")
    page.tap("#ask-filters")
    assert page.is_visible("#filters [name=from]")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("kind", ["light", "dark phone"])
def test_every_view_fits_and_has_no_serious_fault_for_those_who_see_or_hear_it_differently(
    server: Serving, indexed: Path, open_page: OpenPage, kind: str
) -> None:
    page = open_page(server.address, kind)
    faults = []

    def check(view: str) -> None:
        page.mouse.move(0, 0)
        faults.extend((view, fault) for fault in serious_faults(page))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        ground, text = page.evaluate(BRIGHTNESS)
        assert (ground < 40 and text > 220) if "dark" in kind else (ground > 220 and text < 40)

    wait_for(page, "[data-look^='wall=']")
    page.click("#ask-filters")
    check("wall")
    first, second, third = ids(page)[:3]
    page.goto(f"{server.address}/#like={first}@100,100,500,500&like={second}&unlike={third}")
    wait_for(page, "[data-look*='unlike=']")
    check("search")
    page.focus("#view .grid > li a")
    page.keyboard.press("i")
    page.wait_for_selector("#panel .photo")
    check("panel")
    page.keyboard.press("Escape")
    page.wait_for_selector("#panel", state="hidden")
    page.keyboard.press("?")
    check("help")
    page.keyboard.press("Escape")
    page.goto(f"{server.address}/#like=99999")
    wait_for(page, "[data-title='Nothing to show']")
    check("nothing")
    page.set_input_files("#picture", indexed / "wide & <b>bold<b>.png")
    wait_for(page, "[data-look^='like=u']")
    check("upload")
    assert faults == []
