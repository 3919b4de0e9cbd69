"""bench/train_input.py with a few small photos."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_measures_ours_beside_a_plain_loader(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['lightly'] = None\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    options = ["--photos", "6", "--megapixels", "0.5", "--batch", "3", "--workers", "1", "--rounds", "1"]
    command = [sys.executable, "-m", "bench.train_input", *options, "--epochs", "2"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lightly is not installed" in done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    table = {(epoch, name): figures for epoch, name, *figures in rows[2:]}
    assert set(table) == {(e, n) for e in ("first", "later") for n in ("mocosearch", "plain torchvision")}
    assert table["later", "plain torchvision"][-1] == "1.00 (1.00-1.00)"
    assert all(float(figures[0]) > 0 for figures in table.values())
