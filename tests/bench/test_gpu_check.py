"""The dry run of bench/gpu_check.py, on what a bare GPU machine has."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABSENT = ("faiss", "gradio", "fastapi", "uvicorn", "click", "rich", "pytest", "hypothesis", "lightly", "timm", "onnx")
PARTS = "step,packed,tiles,parity,resume"  # "machine" is below; "compiled" takes a minute of a C++ compiler


def gpu_check(tmp_path: Path, *arguments: str, absent: tuple[str, ...] = ABSENT) -> tuple[int, str, dict[str, str]]:
    """Run it without those packages; return exit code, stdout, and part -> how it ended and its rows."""
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({absent}))\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "bench.gpu_check", "--dry-run", "--out", tmp_path / "out", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    parts = json.loads((tmp_path / "out" / "results.json").read_text())["parts"]
    return done.returncode, done.stdout + done.stderr, {part["part"]: part for part in parts}


def test_every_part_runs_without_the_packages_that_a_bare_machine_lacks(tmp_path: Path) -> None:
    code, output, parts = gpu_check(tmp_path, "--parts", PARTS)
    assert code == 0, output
    assert ",".join(parts) == PARTS
    assert all(part["ended"] == "done" and part["rows"] for part in parts.values())
    assert "x ceiling" in parts["step"]["rows"][0]["result"]
    assert "kNN on 61 tiles" in parts["tiles"]["rows"][0]["what"]
    assert "bit for bit" in parts["resume"]["rows"][0]["result"]
    table = (tmp_path / "out" / "results.md").read_text()
    for part in parts.values():
        for row in part["rows"]:
            assert f"{row['what']}: {row['result']}" in output
            assert f"| {part['part']} | {row['what']} | {row['result']} |" in table


def test_a_part_that_fails_costs_no_other(tmp_path: Path) -> None:
    code, output, parts = gpu_check(tmp_path, "--parts", "parity,machine", absent=("tests",))
    assert code == 1
    assert "ModuleNotFoundError" in output
    assert parts["parity"]["ended"] == "failed with exit code 1"
    assert parts["machine"]["ended"] == "done"
