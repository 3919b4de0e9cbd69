"""bench/serve_load.py with a few photos and seconds."""

from pathlib import Path

from tests.warm import completed

ROOT = Path(__file__).parents[2]


def test_it_measures_page_and_interface_beside_the_bare_work() -> None:
    options = ["--photos", "300", "--clients", "1,2", "--seconds", "1"]
    done = completed("bench.serve_load", options, folder=ROOT)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    names = ("page, by photo", "page, by picture", "API, by photo", "API, by picture")
    assert [row[:2] for row in rows[2:]] == [[name, clients] for name in names for clients in ("1", "2")]
    for _, clients, answers, errors, *rest in rows[2:]:
        assert int(answers) > 0
        assert errors == "0", done.stderr
        assert (rest[4] == "-") == (clients == "2")  # one client alone takes turns with the bare work
