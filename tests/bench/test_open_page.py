"""bench/open_page.py with a few photos."""

import os
import shutil
from pathlib import Path

import pytest

from tests.warm import completed

ROOT = Path(__file__).parents[2]


@pytest.mark.browser
def test_it_measures_how_soon_photos_are_on_the_page(tmp_path: Path) -> None:
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        assert not os.environ.get("CI"), "no Chromium to open the page with"
        pytest.skip("no Chromium to open the page with: install it with `apt-get install chromium`")
    options = ["--folder", str(tmp_path), "--photos", "40", "--rounds", "1"]
    done = completed("bench.open_page", options, folder=ROOT)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert [row[:2] for row in rows[2:]] == [["40", "at once"], ["40", "again"]]
    for *_, first, every, shown in rows[2:]:
        assert 0 < float(first.split()[0]) <= float(every.split()[0])
        assert 5 < int(shown) <= 40
