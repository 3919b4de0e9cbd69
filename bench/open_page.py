"""How long a browser takes from opening the page to its first photos, by the size of the library. A table on stdout.

python -m bench.open_page --folder libraries        # generates 1,000 and 100,000 small photos at the first call: 700 MB
"""

import argparse
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from playwright.sync_api import Browser, sync_playwright

from bench.machine import machine_facts, markdown_facts, markdown_table
from bench.served import serving, write_library
from mocosearch_index.image_index import is_index

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
COLUMNS = ["photos", "opened", "server starts in s", "first photo after s", "all in the window after s", "shown"]
# Milliseconds since the address was entered, once something holds; False before.
_FIRST = """() => [...document.querySelectorAll("#view img")].some((image) => image.naturalWidth > 0)
    && performance.now()"""
_ALL = """() => {
    const within = [...document.querySelectorAll("#view img")].filter((image) => {
        const { top, bottom } = image.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
    });
    return within.length > 0 && within.every((image) => image.naturalWidth > 0) && [performance.now(), within.length];
}"""


def open_page(browser: Browser, address: str) -> tuple[float, float, int]:
    """Open the page as somebody who was never there before.

    Returns the seconds to the first photo and to all in the window, and how many those are.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(address, wait_until="commit")
        first = page.wait_for_function(_FIRST, polling="raf", timeout=60_000).json_value()
        every, shown = page.wait_for_function(_ALL, polling="raf", timeout=60_000).json_value()
        return first / 1000, every / 1000, shown
    finally:
        context.close()


def measure(browser: Browser, root: Path, photos: int, rounds: int) -> list[list[str]]:
    """Return two rows of the table: opened the moment the server is up, with no thumbnail made yet, and once more."""
    starts: list[float] = []
    found: dict[str, list[tuple[float, float, int]]] = {"at once": [], "again": []}
    for number in range(rounds):
        shutil.rmtree(root / ".mocosearch" / "thumbnails", ignore_errors=True)
        began = time.perf_counter()
        with serving(root) as server:
            starts.append(time.perf_counter() - began)
            for opened in found.values():
                opened.append(open_page(browser, f"{server.address}/#wall=1"))
        print(f"{photos:,} photos: round {number + 1} of {rounds}", file=sys.stderr)
    return [[f"{photos:,}", name, _spread(starts), *_columns(opened)] for name, opened in found.items()]


def _columns(opened: list[tuple[float, float, int]]) -> list[str]:
    first, every, shown = zip(*opened, strict=True)
    return [_spread(first), _spread(every), str(shown[0])]


def _spread(seconds: "list[float] | tuple[float, ...]") -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where libraries are, or will be, kept  [default: a temporary one]")
    parser.add_argument("--photos", default="1000,100000", help="in the libraries")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        sys.exit("There is no Chromium to open the page with: install it with `apt-get install chromium`.")
    with tempfile.TemporaryDirectory(prefix="bench-open-") as scratch, sync_playwright() as playwright:
        print(f"Command: python -m bench.open_page {shlex.join(sys.argv[1:])}\n")
        print(f"{markdown_facts(machine_facts(torch.device('cpu')))}\n")
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        rows = []
        for photos in map(int, options.photos.split(",")):
            root = (options.folder or Path(scratch)) / str(photos)
            if not is_index(root / ".mocosearch"):
                write_library(root, photos)
            rows += measure(browser, root, photos, options.rounds)
        browser.close()
        print(markdown_table(COLUMNS, rows))


if __name__ == "__main__":
    main()
