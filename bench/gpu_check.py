"""What a GPU machine does with mocosearch, in at most eight minutes and without a network.

    python -m bench.gpu_check --fetch wheels                 # where there is a network: what a bare machine lacks
    python -m bench.gpu_check --wheels wheels --out results  # on the GPU machine, from the checkout
    python -m bench.gpu_check --dry-run                      # tiny sizes, seconds, also on a CPU

The machine has Python 3.12, torch, torchvision, numpy, pillow and pyyaml. Each part (see gpu_parts.py) is a process of
its own with seconds of its own, so that one that fails, hangs or is killed costs no other. Lines appear as they come;
results.json and results.md in the --out folder are rewritten after every part. Exit code 1: a part did not end well.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUDGET = 470.0  # seconds for all parts together
PARTS = {  # and the most seconds of each
    "machine": 30.0,
    "step": 100.0,
    "packed": 90.0,
    "tiles": 90.0,
    "parity": 50.0,
    "resume": 60.0,
    "compiled": 150.0,  # last: what is left
}
PATIENCE = 280.0  # with a part of a dry run, which may be on a busy laptop
_PACKAGES = ("filelock", "matplotlib", "pi-heif", "platformdirs", "pydantic", "safetensors")
_ALREADY_THERE = ("numpy", "pillow")  # that they need
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def fetch(folder: Path) -> None:
    """Download wheels of what the training needs beyond the bare machine's packages, for CPython 3.12 on Linux."""
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    target = ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp", *platforms]
    subprocess.run([sys.executable, "-m", "pip", "download", *target, "-d", str(folder), *_PACKAGES], check=True)
    for name in _ALREADY_THERE:
        for wheel in folder.glob(f"{name}-*.whl"):
            wheel.unlink()
    megabytes = sum(wheel.stat().st_size for wheel in folder.glob("*.whl")) / 2**20
    print(f"{megabytes:.1f} MiB of wheels in {folder}")


def unpacked(wheels: Path, folder: Path) -> Path:
    """Unpack the wheels so that Python can import from `folder`; none of them installs anything else."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder


def run_part(name: str, scratch: Path, environment: dict[str, str], *, seconds: float, dry_run: bool) -> dict[str, Any]:
    """Run one part, whose lines go to our stdout; return its rows, how it ended and how long it took."""
    rows_file = scratch / f"{name}.jsonl"
    command = [sys.executable, "-m", "bench.gpu_parts", name, str(rows_file), str(scratch), *["--dry-run"] * dry_run]
    started = time.perf_counter()
    try:
        code = subprocess.run(command, cwd=ROOT, env=environment, timeout=seconds, check=False).returncode
        ended = "done" if code == 0 else f"failed with exit code {code}"
    except subprocess.TimeoutExpired:
        ended = f"stopped after its {seconds:.0f} seconds"
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()] if rows_file.exists() else []
    return {"part": name, "ended": ended, "seconds": round(time.perf_counter() - started, 1), "rows": rows}


def write_results(out: Path, command: str, parts: list[dict[str, Any]]) -> None:
    """Write what is known so far as JSON and as a table."""
    (out / "results.json").write_text(json.dumps({"command": command, "parts": parts}, indent=1))
    lines = [f"Command: `{command}`", "", "| part | what | result |", "| --- | --- | --- |"]
    for part in parts:
        lines += [f"| {part['part']} | {row['what']} | {row['result']} |" for row in part["rows"]]
        lines.append(f"| {part['part']} | (the part itself) | {part['ended']}, {part['seconds']} s |")
    (out / "results.md").write_text("\n".join(lines) + "\n")


def check(out: Path, wheels: Path | None, names: list[str], *, dry_run: bool) -> bool:
    """Run the parts one after the other; tell whether all ended well."""
    out.mkdir(parents=True, exist_ok=True)
    command = f"python -m bench.gpu_check {shlex.join(sys.argv[1:])}"
    end = time.perf_counter() + BUDGET
    parts: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
        found = [ROOT, ROOT / "index", ROOT / "app"]
        if wheels:
            found.append(unpacked(wheels, Path(scratch, "wheels")))
        paths = [*map(str, found), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        environment |= {"XDG_CACHE_HOME": scratch, "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor"}
        for name in names:
            print(f"== {name}", flush=True)
            seconds = PATIENCE if dry_run else min(PARTS[name], max(1.0, end - time.perf_counter()))
            parts.append(run_part(name, Path(scratch), environment, seconds=seconds, dry_run=dry_run))
            print(f"== {name}: {parts[-1]['ended']}, {parts[-1]['seconds']} s", flush=True)
            write_results(out, command, parts)
    return all(part["ended"] == "done" for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fetch", type=Path, metavar="DIR", help="only download the wheels into DIR")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="folder of wheels to import from")
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder for results.json and results.md")
    parser.add_argument("--parts", default=",".join(PARTS), help="which, comma-separated")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes")
    options = parser.parse_args()
    names = options.parts.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"unknown part {', '.join(unknown)}; known: {', '.join(PARTS)}")
    if options.fetch:
        fetch(options.fetch)
    elif not check(options.out, options.wheels, names, dry_run=options.dry_run):
        sys.exit(1)


if __name__ == "__main__":
    main()
