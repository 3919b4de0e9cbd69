"""Take the picture of the page that README shows: the neighbors of one photo of a library.

mocosearch demo --no-serve --keep demo
python docs/screenshot.py demo/index Residential/Residential_103.jpg docs/page.png
"""

import os
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from mocosearch.library import Library

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WIDTH, HEIGHT = 1280, 820


def main(library: Path, photo: str, picture: Path) -> None:
    """Serve `library`, search from `photo` (relative to its root) and save what the browser shows."""
    with Library.open(library) as opened:
        found = opened.index.photo_at(os.fsencode(photo))
    if found is None:
        sys.exit(f"{photo} is not in {library}")
    command = [sys.executable, "-m", "mocosearch", "serve", str(library)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.goto(f"{address}/#photo-{found.id}")
            page.wait_for_selector("#view .score")
            page.wait_for_load_state("networkidle")
            shot = Image.open(BytesIO(page.screenshot()))
            browser.close()
    finally:
        server.terminate()
        server.wait()
    shot.convert("RGB").quantize(256).save(picture, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
