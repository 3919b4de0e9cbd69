"""Take the pictures of the page that README and docs/ show, from two libraries that are indexed already.

mocosearch demo --no-serve --keep demo                                    # satellite tiles: demo/index
mocosearch train grocery --out run && mocosearch index grocery            # phone photos
python docs/screenshots.py demo/index Residential/Residential_103.jpg grocery Fruit/Mango/Mango_018.jpg

Each library comes with a photo of it, relative to its root. The pictures are written beside this file.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from mocosearch.library import Library

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
HERE = Path(__file__).parent
DESK, PHONE = {"width": 1280, "height": 820}, {"width": 390, "height": 780}
LONG = 900_000  # milliseconds: looking for copies reads every photo


@contextmanager
def served(library: Path) -> Iterator[str]:
    """Serve a library and yield the address of its page."""
    command = [sys.executable, "-m", "mocosearch", "serve", str(library)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def id_of(library: Path, photo: str) -> int:
    with Library.open(library) as opened:
        found = opened.index.photo_at(os.fsencode(photo))
    if found is None:
        sys.exit(f"{photo} is not in {library}")
    return found.id


@contextmanager
def opened(browser: "Browser", address: str, size: dict[str, int], scheme: str) -> Iterator["Page"]:
    """Open an address in a window of its own and wait until all that is seen has arrived."""
    context = browser.new_context(viewport=size, color_scheme=scheme, has_touch=size is PHONE)
    page = context.new_page()
    page.goto(address)
    look = address.partition("#")[2].partition("&open=")[0]
    page.wait_for_selector(f"#shown[data-look='{look}']")
    settle(page)
    yield page
    context.close()


def settle(page: "Page") -> None:
    page.wait_for_selector("#shown:not([data-again])", timeout=LONG)
    page.wait_for_selector("body:not(.busy)")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)


def save(page: "Page", name: str) -> None:
    shot = Image.open(BytesIO(page.screenshot()))
    shot.convert("RGB").save(HERE / f"{name}.webp", quality=82, method=6)
    print(HERE / f"{name}.webp")


def take_tiles(browser: "Browser", address: str, photo_id: int) -> None:
    with opened(browser, f"{address}/#like={photo_id}", DESK, "light") as page:
        save(page, "page")
    with opened(browser, f"{address}/#library", DESK, "light") as page:
        save(page, "page-library")


def take_photos(browser: "Browser", address: str, photo_id: int) -> None:
    with opened(browser, f"{address}/#wall=7", DESK, "dark") as page:
        save(page, "page-wall")
    with opened(browser, f"{address}/#like={photo_id}&open={photo_id}", DESK, "light") as page:
        page.wait_for_selector("#panel[open]")
        settle(page)
        save(page, "page-panel")
    with opened(browser, f"{address}/#like={photo_id}", PHONE, "dark") as page:
        save(page, "page-phone")
    with opened(browser, f"{address}/#duplicates", DESK, "light") as page:
        page.click("[data-action='find-copies']")
        page.wait_for_selector("#shown[data-again]")
        settle(page)
        save(page, "page-duplicates")


def main(tiles: Path, tile: str, photos: Path, photo: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        with served(tiles) as address:
            take_tiles(browser, address, id_of(tiles, tile))
        with served(photos) as address:
            take_photos(browser, address, id_of(photos, photo))
        browser.close()


if __name__ == "__main__":
    tiles, tile, photos, photo = sys.argv[1:]
    main(Path(tiles), tile, Path(photos), photo)
