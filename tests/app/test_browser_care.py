"""The tabs Duplicates and Library in Chromium: what a person does to look after a library."""

import csv
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import all_pictures_load, serious_faults, until
from PIL import Image
from serving import Serving, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def kept(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of the tests of this file."""
    return Path(shutil.copytree(indexed, tmp_path_factory.mktemp("kept") / "photos"))


@pytest.fixture(scope="module")
def kept_server(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with socket.create_server(("127.0.0.1", 0)) as free:  # not one that `serve` would take by itself for another test
        port = free.getsockname()[1]
    with serving(kept, tmp_path_factory.mktemp("kept server"), "--port", str(port)) as running:
        yield running
        assert "Traceback" not in running.log.read_text()


def press(page: "Page", button: str) -> str:
    """Press a button of a tab, wait until the work is done, and return what the tab then says."""
    before = page.get_attribute("#shown", "data-ask")
    page.click(button)
    page.wait_for_selector(f"#shown:not([data-ask='{before}'])")
    page.wait_for_selector("#shown:not(:has(.work))")
    return page.inner_text("#shown")


def test_a_rescan_shows_what_came_and_what_cannot_be_read_and_copies_are_found_and_exported(
    kept: Path, kept_server: Serving, open_page: Callable[..., "Page"], tmp_path: Path
) -> None:
    shutil.copy(kept / "tall.png", kept / "again.png")
    Image.open(kept / "wide & <b>bold<b>.png").resize((600, 100)).save(kept / "smaller.png")
    (kept / "broken.jpg").write_text("no picture")
    page = open_page(kept_server.address)
    page.click("nav [data-tab=library]")
    page.wait_for_selector("#shown[data-look=library] .cards")
    assert "3 new since it was indexed" in page.inner_text("#shown")
    after = press(page, "#rescan")
    assert "The library is up to date: 1 new or changed, 1 copied, 1 could not be read." in after
    assert "as it was indexed" in after
    page.click("#shown summary")
    assert "broken.jpg" in page.inner_text("#shown details")
    press(page, "#rescan")
    assert page.is_visible("#shown details li")  # it stays open

    page.click("nav [data-tab=duplicates]")
    page.wait_for_selector("#shown[data-look=duplicates]")
    press(page, "#find-identical")
    assert page.inner_text("#shown h2") == f"1 copy of 1 photo among 64: {_bytes(kept / 'tall.png')} can be freed"
    press(page, "#find-copies")
    all_pictures_load(page)
    members = [page.inner_text(f"#shown .group:has([alt='{name}'])") for name in ("again.png", "smaller.png")]
    assert "Identical files" in members[0]
    assert "Near copies" in members[1]
    assert "Keep: most pixels" in members[1]
    with page.expect_download() as download:
        page.click("#shown a[download]")
    download.value.save_as(tmp_path / "duplicates.csv")
    with (tmp_path / "duplicates.csv").open(encoding="utf-8-sig", newline="") as table:
        paths = {row["path"] for row in csv.DictReader(table)}
    assert {str(kept / "again.png"), str(kept / "tall.png"), str(kept / "smaller.png")} <= paths

    page.click("#shown .member a")
    page.wait_for_selector("#shown[data-look^='like='] .grid")
    page.go_back()
    page.wait_for_selector("#shown[data-look=duplicates] .groups")


def _bytes(path: Path) -> str:
    return f"{path.stat().st_size / 1000:,.1f} kB"


def test_work_goes_on_when_its_page_is_closed_and_every_page_sees_it_and_can_stop_it(
    kept: Path, kept_server: Serving, open_page: Callable[..., "Page"]
) -> None:
    (kept / ".mocosearch" / "duplicates" / "calibration.json").unlink(missing_ok=True)  # so that it takes a while
    first = open_page(f"{kept_server.address}/#duplicates")
    first.click("#find-copies")
    first.wait_for_selector("#shown .work")
    first.close()
    second = open_page(f"{kept_server.address}/#duplicates", "phone")
    second.wait_for_selector("#shown .work")
    assert second.is_disabled("#find-identical")
    second.focus("#stop")
    until(second, "document.querySelector('#shown .work span').textContent.includes('of')")
    assert second.evaluate("document.activeElement.id") == "stop"  # though the view came anew
    second.keyboard.press("Enter")
    second.wait_for_selector("#shown:not(:has(.work))")
    assert "Stopped" in second.inner_text("#shown") or second.query_selector("#shown .groups")


@pytest.mark.parametrize("kind", ["light", "dark phone"])
def test_every_width_and_theme_is_legible_and_accessible(
    kept_server: Serving, open_page: Callable[..., "Page"], kind: str
) -> None:
    page = open_page(f"{kept_server.address}/#library", kind)
    page.wait_for_selector("#shown[data-look=library] .cards")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious_faults(page) == []
    page.click("nav [data-tab=duplicates]")
    page.wait_for_selector("#shown[data-look=duplicates]")
    press(page, "#find-identical")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious_faults(page) == []


def test_a_server_or_a_photo_that_is_gone_is_told_and_the_search_goes_on_when_it_is_back(
    kept: Path, kept_server: Serving, tmp_path: Path, browser: "Browser"
) -> None:
    page = browser.new_page()
    page.goto(kept_server.address)
    wall = page.wait_for_selector("#shown[data-look^='wall='] .grid > li:last-child")
    assert wall
    gone = wall.get_attribute("data-id")
    path = str(page.get_attribute("#view .grid > li:last-child a", "title"))
    assert kept_server.stop() == 0
    page.set_input_files("#picture", kept / "tall.png")
    page.wait_for_selector("#notice:not([hidden])")
    assert "mocosearch serve" in page.inner_text("#notice")
    page.click("#view .grid a")
    assert not page.is_visible("#notice")
    page.wait_for_selector("#notice:not([hidden])")
    page.wait_for_selector("body:not(.busy)")
    with serving(kept, tmp_path, "--port", str(kept_server.port)):
        page.wait_for_selector("#shown[data-look^='like=']")
        assert not page.is_visible("#notice")

        (kept / path).unlink()
        page.evaluate("id => { location.hash = `like=${id}`; }", gone)
        page.wait_for_selector("#view aside .gone")
        assert page.query_selector("#view .grid img")  # its neighbors are found all the same
    page.close()
