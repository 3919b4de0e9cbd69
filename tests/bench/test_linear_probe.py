"""bench/linear_probe.py with a few photos."""

from pathlib import Path

import numpy as np
import pytest

from bench.linear_probe import embedded, generated
from tests.warm import completed

ROOT = Path(__file__).parents[2]


def test_it_measures_generated_and_given_features_against_each_strength(tmp_path: Path) -> None:
    made = generated(600, 32)
    np.savez(tmp_path / "given.npz", vectors=made.vectors, labels=made.labels, held_out=made.held_out)
    options = ["--photos", "500", "--dim", "16", "--strengths", "0.1,1", "--features", str(tmp_path / "given.npz")]
    done = completed("bench.linear_probe", options, folder=ROOT)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert [row[:2] for row in rows[2:]] == [
        [name, c] for name in ("given, 480 x 32", "generated, 400 x 16") for c in ("0.1", "1")
    ]
    for row in rows[2:]:
        assert float(row[-2]) > 0.15  # chance is about a tenth
        assert float(row[-1]) == pytest.approx(100 * (float(row[-2]) - float(row[-3])), abs=0.02)


def test_features_that_are_not_there_need_photos_to_make_them_of(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="name a --folder"):
        embedded(tmp_path / "none.npz", None, None)
