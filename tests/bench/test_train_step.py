"""bench/train_step.py at a tiny size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.train_step import measure, ratio
from tests.warm import completed

ROOT = Path(__file__).parents[2]


def test_it_measures_ours_beside_the_ceiling_and_says_that_lightly_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['lightly'] = None\n")
    command = [sys.executable, "-m", "bench.train_step", "--cases", "tiny", "--rounds", "2", "--groups", "2"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "lightly is not installed" in done.stderr
    *_, ceiling, ours = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines()]
    assert ceiling[1:4] == ["tiny", "4, 32, 2", "bare ceiling"]
    assert ceiling[6] == "1.000 (1.000-1.000)"
    assert ours[3] == "mocosearch"
    assert "python -m bench.train_step --cases tiny" in done.stdout


def test_lightly_takes_part_where_it_is_installed() -> None:
    pytest.importorskip("lightly")
    done = completed("bench.train_step", ["--cases", "tiny", "--rounds", "1"], folder=ROOT)
    assert done.returncode == 0, done.stderr
    assert "| lightly " in done.stdout


def test_ratios_are_taken_round_by_round() -> None:
    assert ratio([2.0, 4.0, 6.0], [1.0, 2.0, 2.0]) == "2.000 (2.000-2.500)"
    assert ratio([3.0], [2.0]) == "1.500 (1.500-1.500)"


def test_another_contestant_goes_first_in_every_round() -> None:
    order: list[str] = []
    steps = {name: (lambda name=name: order.append(name)) for name in "abc"}
    taken = measure(steps, torch.device("cpu"), rounds=3, repeat=1)
    assert order[-9:] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert {name: len(times) for name, times in taken.items()} == {"a": 3, "b": 3, "c": 3}
