"""Runs of the small recipe over the small photos, and what they leave."""

import itertools
import json
from pathlib import Path

import torch

from mocosearch.recipes import Recipe
from mocosearch.training.prepare import new_run, resumed_run
from mocosearch.training.run import Run

STEPS = 12  # 4 epochs of 3 steps


def make(photos: Path, recipe: Recipe, folder: Path, minutes: float | None = None) -> Run:
    pack = folder.parent / "pack"
    return new_run(photos, recipe, recipe_name="demo", folder=folder, minutes=minutes, pack_folder=pack, workers=0)


def resumed(folder: Path, *, workers: int = 0) -> Run:
    return resumed_run(folder, workers=workers)


def losses(folder: Path) -> list[tuple[int, float]]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(row["step"], row["loss"]) for row in rows]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "encoder" / "model.safetensors")


def train(run: Run, *, stop_after: int | None = None) -> Path:
    """Train; `stop_after` is the step during which the signal to stop arrives."""
    steps = itertools.count(1)
    return run.train(on_step=lambda report: None, stop=lambda: next(steps) == stop_after)
