"""bench/rescan.py with a few files."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_measures_an_update_beside_a_bare_walk(tmp_path: Path) -> None:
    options = ["--files", "40", "--files-a-folder", "10", "--rounds", "1", "--folder", str(tmp_path)]
    command = [sys.executable, "-m", "bench.rescan", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert [name for name, *_ in rows[2:]] == [
        "bare scandir + stat",
        "mocosearch, its walk alone",
        "mocosearch, open + update",
        "mocosearch index, whole command",
    ]
    assert rows[2][-1] == "1.00 (1.00-1.00)"
