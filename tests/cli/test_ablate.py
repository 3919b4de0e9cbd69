"""`ablate` in real processes, on a few small photos."""

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.commands import Mocosearch

SMALL = ("--recipe", "demo", "--set", "views.crop=16", "--set", "batch=8", "--minutes", "0.05", "--seeds", "2")


@pytest.fixture
def mocosearch(tmp_path: Path) -> Mocosearch:
    """Beside 24 photos of two classes that differ in brightness."""
    rng = np.random.default_rng(0)
    for name, low in (("dark", 0), ("bright", 150)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(12):
            pixels = rng.integers(low, low + 100, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return Mocosearch(tmp_path)


def test_a_killed_ablation_goes_on_and_never_trains_a_cell_twice(mocosearch: Mocosearch, tmp_path: Path) -> None:
    arguments = ("ablate", "photos", "--study", "dictionary", *SMALL, "--set", "method.queue=8")
    cells = tmp_path / "ablation" / "cells"
    process = mocosearch.start(*arguments)
    while len(done := sorted(cells.glob("*/result.json"))) < 2:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    stamps = {path: path.stat().st_mtime_ns for path in done}

    out, err = mocosearch(*arguments, "--json")
    found = json.loads(out)["studies"]["dictionary"]
    assert list(found) == ["queue, K 8", "memory bank, K 8", "end-to-end, K 7"]
    assert all(0 <= figures["knn_accuracy"] <= 1 and figures["chance"] == 0.5 for figures in found.values())
    assert json.loads(out)["baseline"]["runs"] == 2
    assert 0 < json.loads(out)["untrained"] <= 1
    assert {path: path.stat().st_mtime_ns for path in done} == stamps
    steps = json.loads((tmp_path / "ablation" / "ablation.json").read_text())["steps"]
    for cell in ("baseline", "seed=1", "memory_bank-8", "end_to_end"):
        assert len((cells / cell / "metrics.jsonl").read_text().splitlines()) == steps
        assert not (cells / cell / "checkpoints").exists()
    with Image.open(tmp_path / "ablation" / "dictionary.png") as plot:
        assert plot.width > 400

    out, err = mocosearch(*arguments)  # all is done: only the table is left
    assert "end-to-end" in out
    assert "Cell " not in err


def test_what_cannot_be_scored_is_refused_before_anything_is_trained(mocosearch: Mocosearch, tmp_path: Path) -> None:
    _, err = mocosearch("ablate", "photos/dark", *SMALL, code=1)
    assert "sort them into" in err
    _, err = mocosearch("ablate", "photos", *SMALL, "--out", "photos/out", code=2)
    assert "inside the folder of photos" in err
    assert not (tmp_path / "ablation").exists()
