"""bench/index_throughput.py with a few small photos."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench.index_throughput", *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_it_measures_ours_and_its_ceilings_beside_a_plain_loop() -> None:
    sizes = ("--large", "0", "--small", "5", "--rounds", "1", "--architecture", "resnet18")
    done = run(*sizes, "--who", "one at a time")
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
    done = run("--who", "one at a time,clip")
    assert done.returncode == 2
    assert "unknown: clip; known: decoding alone, network alone, mocosearch" in done.stderr
