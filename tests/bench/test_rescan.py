"""bench/rescan.py with a few files."""

from pathlib import Path

from tests.warm import completed

ROOT = Path(__file__).parents[2]


def test_it_measures_an_update_beside_a_bare_walk(tmp_path: Path) -> None:
    options = ["--files", "40", "--files-a-folder", "10", "--rounds", "1", "--folder", str(tmp_path)]
    done = completed("bench.rescan", options, folder=ROOT)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert [name for name, *_ in rows[2:]] == [
        "bare scandir + stat",
        "mocosearch, its walk alone",
        "mocosearch, open + update",
        "mocosearch index, whole command",
    ]
    assert rows[2][-1] == "1.00 (1.00-1.00)"
