"""Searching in Chromium: parts of pictures, several examples, filters, scrolling on, with pointer and keyboard."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import until
from serving import Serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

TILE = "#view .grid > li"
OpenPage = Callable[..., "Page"]


def wait_for(page: "Page", look: str) -> None:
    """Wait for a view whose look is described by attribute selectors."""
    page.wait_for_selector(f"#shown{look}")
    page.wait_for_selector("body:not(.busy)")


def look(page: "Page") -> str:
    return str(page.get_attribute("#shown", "data-look"))


def ids(page: "Page") -> list[str]:
    return [str(tile.get_attribute("data-id")) for tile in page.query_selector_all(TILE)]


def scores(page: "Page") -> list[float]:
    return [float(score.inner_text()) for score in page.query_selector_all(f"{TILE} .score")]


def open_search(page: "Page", place: int = 1) -> str:
    """Search with the photo at a place of the wall and return its id."""
    wait_for(page, "[data-look^='wall=']")
    searched = ids(page)[place - 1]
    page.click(f"{TILE}:nth-child({place}) a")
    wait_for(page, f"[data-look='like={searched}']")
    return searched


def press_tool(page: "Page", place: int, tool: str) -> str:
    """Press a tool of the tile at a place and return the photo's id."""
    tile = page.locator(f"{TILE}:nth-child({place})")
    photo = str(tile.get_attribute("data-id"))
    tile.hover()
    tile.locator(f"[data-tool={tool}]").click()
    return photo


def test_more_and_less_like_this_become_chips_that_can_be_taken_away(server: Serving, open_page: OpenPage) -> None:
    page = open_page(server.address)
    first = open_search(page)
    alone = scores(page)
    assert alone == sorted(alone, reverse=True)

    liked = ids(page)[1]
    assert press_tool(page, 2, "more") == liked
    wait_for(page, f"[data-look='like={first}&like={liked}']")
    assert {first, liked}.isdisjoint(ids(page))
    unliked = ids(page)[2]
    press_tool(page, 3, "less")
    wait_for(page, f"[data-look='like={first}&like={liked}&unlike={unliked}']")
    assert page.locator(".chips.like .chip").count() == 2
    assert page.locator(".chips.unlike .chip").count() == 1
    assert unliked not in ids(page)

    page.click("[data-large]")
    wait_for(page, f"[data-look='like={liked}&like={first}&unlike={unliked}']")
    page.click(f".chip [data-remove='{unliked}']")
    wait_for(page, f"[data-look='like={liked}&like={first}']")
    page.click(f".chip [data-remove='{liked}']")
    wait_for(page, f"[data-look='like={first}']")
    assert scores(page) == alone
    assert not page.query_selector(".chip")

    page.evaluate("ids => { location.hash = ids.map((id) => `like=${id}`).join('&'); }", ids(page)[:8])
    page.wait_for_selector(".chips.like .chip:nth-child(8)")
    page.focus(f"{TILE} a")
    page.keyboard.press("i")
    page.click("#panel [data-tool=more]")
    page.wait_for_selector("#panel", state="hidden")  # it would lie over the words
    assert "take one away first" in page.inner_text("#notice")


def test_a_search_follows_a_rectangle_when_it_is_let_go(server: Serving, open_page: OpenPage) -> None:
    page = open_page(server.address)
    photo = open_search(page)
    whole = scores(page)
    box = page.locator("#cropper").bounding_box()
    assert box
    left, top, width, height = box["x"], box["y"], box["width"], box["height"]

    def drag(*places: tuple[float, float]) -> None:
        at = [(left + x * width, top + y * height) for x, y in places]
        page.mouse.move(*at[0])
        page.mouse.down()
        page.mouse.move(*at[1], steps=4)
        page.mouse.up()

    page.mouse.move(left + 0.1 * width, top + 0.1 * height)
    page.mouse.down()
    page.mouse.move(left + 0.9 * width, top + 0.9 * height, steps=4)
    assert page.is_visible("#cropper .part")
    page.keyboard.press("Escape")
    page.mouse.up()
    assert not page.is_visible("#cropper .part")
    assert not page.query_selector("body.busy")

    drag((0.7, 0.8), (0.2, 0.3))
    wait_for(page, "[data-look*='@']")
    drawn = [int(number) for number in look(page).partition("@")[2].split(",")]
    assert drawn == pytest.approx([200, 300, 500, 500], abs=8)
    assert scores(page) != whole
    part = page.locator("#cropper .part").bounding_box()
    assert part
    assert part["width"] == pytest.approx(width / 2, abs=3)

    drag((0.4, 0.5), (0.9, 0.5))  # moved as far as there is room
    wait_for(page, f"[data-look^='like={photo}@5']")
    assert look(page).partition("@")[2].split(",")[0] == str(1000 - drawn[2])
    moved = look(page)
    drag((0.1, 0.9), (0.11, 0.9))  # a slip
    assert page.url.endswith(moved)
    assert not page.query_selector("body.busy")
    drag((0.5, 0.8), (0.5, 1.0))  # the corner at the left bottom
    until(page, "look => document.querySelector('#shown').dataset.look !== look", moved)
    wait_for(page, "[data-look$=',700']")

    page.go_back()
    wait_for(page, f"[data-look='{moved}']")
    page.click(".whole")
    wait_for(page, f"[data-look='like={photo}']")
    assert scores(page) == whole
    assert not page.is_visible("#cropper .part")

    page.set_viewport_size({"width": 900, "height": 360})
    under = page.locator("#cropper").bounding_box()
    facts = page.locator("aside .facts").bounding_box()
    assert under
    assert facts
    assert under["y"] + under["height"] <= facts["y"]  # in a low window, too


def test_a_rectangle_is_placed_with_the_keyboard_and_by_touch(server: Serving, open_page: OpenPage) -> None:
    page = open_page(server.address, "phone")
    photo = open_search(page)
    page.focus("#cropper")
    for keys in ("ArrowLeft", "ArrowDown", "Shift+ArrowRight"):
        page.keyboard.press(keys)
    wait_for(page, f"[data-look='like={photo}@225,275,525,500']")
    assert page.evaluate("document.activeElement.id") == "cropper"
    page.keyboard.press("?")
    page.wait_for_selector("#help")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Delete")  # at once
    wait_for(page, f"[data-look='like={photo}']")
    page.keyboard.press("ArrowLeft")
    page.click("#surprise")  # before a search with the rectangle has begun
    wait_for(page, "[data-look^='wall=']")
    page.wait_for_timeout(800)
    wait_for(page, "[data-look^='wall=']")
    page.goto(f"{server.address}/#like={photo}")
    wait_for(page, f"[data-look='like={photo}']")

    box = page.locator("#cropper").bounding_box()
    assert box
    finger = page.context.new_cdp_session(page)
    for kind, x, y in (("touchStart", 0.1, 0.1), ("touchMove", 0.4, 0.5), ("touchMove", 0.6, 0.6), ("touchEnd", 0, 0)):
        at = [{"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}] if x else []
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})
    wait_for(page, f"[data-look^='like={photo}@1']")
    assert page.evaluate("scrollY") == 0


def test_filters_hold_for_wall_and_search_and_are_cleared_together(
    server: Serving, indexed: Path, open_page: OpenPage
) -> None:
    page = open_page(server.address)
    wait_for(page, "[data-look^='wall=']")
    page.click("#ask-filters")
    page.fill("#filters [name=folder]", "River")
    until(page, "document.querySelectorAll('#folders option').length === 10")
    page.press("#filters [name=folder]", "Enter")
    wait_for(page, "[data-look$='folder=River']")
    assert page.inner_text("#shown h1") == "6 of 62 photos"

    page.set_input_files("#picture", indexed / "tall.png")
    wait_for(page, "[data-look^='like=u'][data-look$='&folder=River']")
    assert len(ids(page)) == 6
    middle = scores(page)[2]
    page.evaluate(
        """score => {
        const slider = document.querySelector("#filters [name=min]");
        slider.value = score;
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        slider.dispatchEvent(new Event("change", { bubbles: true }));
    }""",
        f"{middle:.3f}",  # of scores that all lie close together
    )
    wait_for(page, "[data-look*='&min=']")
    assert 1 <= len(ids(page)) < 6
    assert min(scores(page)) >= middle - 0.001

    page.fill("#filters [name=from]", "2020-01-01")
    page.press("#filters [name=from]", "Enter")
    wait_for(page, "[data-look*='from=2020-01-01']")
    assert "No photo passes these filters" in page.inner_text("#view")
    assert page.get_attribute("#ask-filters", "data-count") == "3"
    page.reload()
    wait_for(page, "[data-look*='from=2020-01-01']")
    assert page.input_value("#filters [name=from]") == "2020-01-01"
    page.click("#view .clear-filters")
    wait_for(page, "[data-look^='like=u']:not([data-look*='&'])")
    assert len(ids(page)) == 60
    page.fill("#filters [name=folder]", "nowhere")
    page.press("#filters [name=folder]", "Enter")
    page.wait_for_selector("text=There is no folder “nowhere” in this library.")


def test_scrolling_goes_on_to_the_last_photo_and_back_leads_to_where_one_was(
    server: Serving, open_page: OpenPage
) -> None:
    page = open_page(server.address)
    wait_for(page, "[data-look^='wall=']")
    assert len(ids(page)) == 60
    page.mouse.wheel(0, 20_000)
    until(page, "document.querySelectorAll('#view .grid > li').length === 62")
    assert len(set(ids(page))) == 62
    assert page.inner_text("#status") == "2 more photos"
    assert not page.is_visible("#view .more")

    page.locator(f"{TILE}:nth-child(62) a").click()
    down = page.evaluate("scrollY")
    assert down > 0
    wait_for(page, "[data-look^='like=']")
    assert page.evaluate("scrollY") == 0
    page.go_back()
    wait_for(page, "[data-look^='wall=']")
    until(page, "document.querySelectorAll('#view .grid > li').length === 62")
    until(page, "down => Math.abs(scrollY - down) < 3", down)


def test_a_copied_link_reproduces_a_search(server: Serving, open_page: OpenPage) -> None:
    page = open_page(server.address)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_search(page)
    press_tool(page, 4, "less")
    wait_for(page, "[data-look*='unlike=']")
    page.click("#link")
    page.wait_for_selector("#link.done")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == f"{server.address}/#{look(page)}"
    other = open_page(link)
    wait_for(other, "[data-look*='unlike=']")
    assert ids(other) == ids(page)
