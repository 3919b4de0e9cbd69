"""bench/index_throughput.py with a few small photos."""

import os
from pathlib import Path

from tests.warm import completed

ROOT = Path(__file__).parents[2]


def test_it_measures_ours_and_its_ceilings_beside_a_plain_loop() -> None:
    sizes = ("--large", "0", "--small", "5", "--rounds", "1", "--architecture", "resnet18")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    options = (*sizes, "--who", "one at a time")
    done = completed("bench.index_throughput", options, folder=ROOT, environment=environment)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    table = {(photos, name): figures for photos, name, *figures in rows[2:]}
    names = ("decoding alone", "network alone", "mocosearch", "one at a time")
    assert set(table) == {("5 of 500 x 375", name) for name in names}
    assert table["5 of 500 x 375", "mocosearch"][1] == "1.00 (1.00-1.00)"
    for rate, _, _, mebibytes in table.values():
        assert float(rate) > 0
        assert float(mebibytes.replace(",", "")) > 50  # torch alone takes more


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    done = completed("bench.index_throughput", ("--who", "one at a time,clip"), folder=ROOT)
    assert done.returncode == 2
    assert "unknown: clip; known: decoding alone, network alone, mocosearch" in done.stderr
