"""Our own training: the command as people run it, or for short trials the same run in this process, by CPU time."""

import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

import torch

from bench.evidence.cases import Case
from bench.evidence.plan import Planned
from mocosearch.encoders import Encoder, load_encoder
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training.prepare import new_run
from mocosearch.training.records import read_rows
from mocosearch.training.run_folder import RunFolder

_TIMED_STEPS = 8  # to find out how many a trial has time for
_COMMAND = [sys.executable, "-m", "mocosearch", "train"]


@dataclass(frozen=True)
class Trained:
    """A finished encoder, and what its training came to."""

    encoder: Path
    facts: dict[str, int | float | str]
    curve: list[tuple[float, float]]  # minutes of training, kNN accuracy on the probe


def train(planned: Planned, case: Case, probe: Path, runs: Path, init: str | None) -> Trained:
    """Run `mocosearch train` on all cores for the planned wall time; what was interrupted goes on."""
    folder = runs / planned.name
    if not (folder / "encoder" / "encoder.json").exists():
        if any(RunFolder(folder).checkpoints.glob("step-*.pt")):
            command = [*_COMMAND, "--resume", "--out", str(folder)]
        else:
            command = [*_COMMAND, str(case.train), "--recipe", planned.recipe, "--minutes", str(planned.minutes)]
            command += [part for change in planned.overrides for part in ("--set", change)]
            command += ["--probe", str(probe), "--out", str(folder), *(("--init", init) if init else ())]
        print(" ".join(command), file=sys.stderr)
        subprocess.run(command, check=True)
    return Trained(folder / "encoder", _facts(folder), _curve(folder))


def _facts(folder: Path) -> dict[str, int | float | str]:
    steps = read_rows(folder / "metrics.jsonl")
    batch = load_recipe(str(folder / "recipe.yaml")).batch
    return {
        "steps": len(steps),
        "photos seen": len(steps) * batch,
        "minutes of steps": round(sum(row["seconds"] for row in steps) / 60, 2),
        "last loss": round(steps[-1]["loss"], 4),
    }


def _curve(folder: Path) -> list[tuple[float, float]]:
    """Return the kNN accuracy on the probe over the minutes that steps had taken by then."""
    minutes, spent = {0: 0.0}, 0.0
    for row in read_rows(folder / "metrics.jsonl"):
        spent += row["seconds"] / 60
        minutes[row["step"]] = spent
    return [(round(minutes[row["step"]], 4), row["knn_accuracy"]) for row in read_rows(folder / "health.jsonl")]


def train_trial(planned: Planned, case: Case, runs: Path, init: str | None) -> Trained:
    """Train in this process on one thread, for the CPU time of so many minutes on two cores.

    CPU time, not wall time: two trials share the machine with each other, and with what else it does.
    """
    folder = runs / planned.name
    if not (folder / "encoder" / "encoder.json").exists():
        shutil.rmtree(folder, ignore_errors=True)  # of a trial that was stopped
        recipe, start = load_recipe(planned.recipe, planned.overrides), load_encoder(init) if init else None
        options = {"recipe_name": planned.recipe, "minutes": None, "workers": 0}
        with _one_thread():
            steps = int(2 * 60 * planned.minutes / _seconds_per_step(recipe, case, start))
            run = new_run(case.train, recipe, folder=folder, steps=steps, init=start, **options)
            run.train(on_step=lambda report: None)
    facts = {name: fact for name, fact in _facts(folder).items() if not name.startswith("minutes")}
    return Trained(folder / "encoder", facts, [])


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _seconds_per_step(recipe: Recipe, case: Case, init: Encoder | None) -> float:
    """Return the median of the CPU seconds of a few steps, in a run that is thrown away."""
    with TemporaryDirectory() as folder:
        out, options = Path(folder) / "run", {"recipe_name": "timed", "minutes": None, "workers": 0}
        run = new_run(case.train, recipe, folder=out, steps=_TIMED_STEPS, init=init, **options)
        times = [process_time()]
        run.train(on_step=lambda report: times.append(process_time()))
    return median(later - earlier for earlier, later in itertools.pairwise(times[1:]))
