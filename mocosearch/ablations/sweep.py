"""Training and scoring the cells of a sweep, one after the other; what is done is never done again.

ablation.json    the photos, the baseline recipe and the number of steps that all cells share
untrained/       the baseline's encoder before its first step, and `accuracy.json`
cells/NAME/      a training run each; `result.json` once it is scored, its checkpoints are then removed
"""

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel, ConfigDict, ValidationError

from mocosearch.ablations.studies import BASELINE, Cell
from mocosearch.encoders import load_encoder
from mocosearch.errors import BadRecipe, BadSweep
from mocosearch.evaluation.features import embed_labelled
from mocosearch.evaluation.health import label_free_health
from mocosearch.evaluation.intervals import wilson_interval
from mocosearch.evaluation.knn import chance_accuracy, evaluate_knn
from mocosearch.evaluation.labels.labelled import LabelledPhotos
from mocosearch.recipes import MocoSection, Recipe
from mocosearch.training.packs import CountCallback
from mocosearch.training.prepare import new_run, resumed_run
from mocosearch.training.records import read_rows
from mocosearch.training.run import Run
from mocosearch.training.run_folder import RunFolder
from mocosearch_index.atomic import atomic_write
from mocosearch_index.paths import shown

PROBE_PHOTOS = 2000  # that a cell is scored on, at most
_UNTRAINED = "untrained"
_END = 0.05  # share of a run's steps that its final loss is the mean of


class Facts(BaseModel):
    """What ablation.json holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: str
    asked: Recipe
    recipe: Recipe  # the same, fitted to the photos: the baseline
    photos: int
    photos_digest: str  # of the list that every cell trains on
    probe_digest: str  # of the photos that every cell is scored on, and their classes
    minutes: float
    steps: int  # of every cell


class CellResult(BaseModel):
    """The figures of one cell."""

    model_config = ConfigDict(frozen=True)

    knn_accuracy: float
    interval: tuple[float, float]  # of the accuracy, 95%, over the photos it was scored on
    chance: float
    precision_at_10: float
    effective_rank: float
    collapsed: bool
    loss: float | None  # mean over the last steps, as the next; None when the queue still held random keys
    contrastive_accuracy: float | None


@dataclass(frozen=True)
class Sweep:
    """An ablation in a folder; `probe` are the labelled photos that its cells are scored on."""

    folder: Path
    facts: Facts
    probe: LabelledPhotos

    @classmethod
    def open(
        cls,
        folder: Path,
        root: Path,
        recipe: Recipe,
        *,
        minutes: float,
        probe: LabelledPhotos,
        on_photo: CountCallback = lambda done, total: None,
    ) -> "Sweep":
        """Begin an ablation, or go on with the one in `folder`.

        A run of the baseline may take `minutes`; the number of steps that this is, measured once, holds for all cells.
        Raises BadSweep when the folder holds another ablation.
        """
        if not isinstance(recipe.method, MocoSection):
            raise BadRecipe(f"Ablations depart from MoCo, not from {recipe.method.name}: take another --recipe.")
        path, probe = folder / "ablation.json", probe.thinned(PROBE_PHOTOS)
        if path.exists():
            facts = _read(path)
            if (facts.root, facts.asked, facts.minutes) != (str(root.absolute()), recipe, minutes):
                raise BadSweep(
                    f"{folder} holds an ablation of other photos, another recipe or other minutes "
                    f"({shown(Path(facts.root))}, {facts.minutes:g} minutes): give the same, or another --out."
                )
            if facts.probe_digest != _digest_of_probe(probe):
                raise BadSweep(f"{folder} holds an ablation that was scored on other photos: name another --out.")
        else:
            run = new_run(
                root,
                recipe,
                recipe_name=BASELINE,
                folder=_cell_folder(folder, BASELINE),
                minutes=minutes,
                on_photo=on_photo,
            )
            run.save_untrained(folder / _UNTRAINED)
            facts = Facts(
                root=str(run.root),
                asked=recipe,
                recipe=run.recipe,
                photos=run.photos,
                photos_digest=_digest_of_run(run),
                probe_digest=_digest_of_probe(probe),
                minutes=minutes,
                steps=run.total_steps,
            )
            # Not model_dump_json, which takes no path that is not UTF-8.
            atomic_write(path, json.dumps(facts.model_dump(), indent=1).encode())
        return cls(folder, facts, probe)

    def run(self, cell: Cell) -> Run | None:
        """Return the training run of a cell, from where it was stopped if it was; None once it is trained."""
        folder = RunFolder(_cell_folder(self.folder, cell.name))
        if folder.is_finished:
            return None
        if any(folder.checkpoints.glob("step-*.pt")):
            return resumed_run(folder.path)
        run = new_run(
            Path(self.facts.root),
            cell.recipe,
            recipe_name=cell.name,
            folder=folder.path,
            minutes=None,
            steps=self.facts.steps,
        )
        if _digest_of_run(run) != self.facts.photos_digest:
            raise BadSweep(
                f"The photos in {shown(run.root)} are not those that the ablation began with: put them back, or name "
                "another --out."
            )
        return run

    def result(self, cell: Cell) -> CellResult | None:
        """Return the figures of a cell that was scored; None also where they are damaged: it is scored again."""
        try:
            return CellResult.model_validate_json(_result_file(self.folder, cell).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def untrained_accuracy(self, progress: CountCallback = lambda done, total: None) -> float:
        """Return the kNN accuracy of the untrained encoder, which training should exceed; measured once."""
        path = self.folder / _UNTRAINED / "accuracy.json"
        if not path.exists():
            features = embed_labelled(self.probe, load_encoder(path.parent), progress)
            accuracy = evaluate_knn(features.vectors, features.labels).figures[0].value
            atomic_write(path, json.dumps(accuracy).encode())
        return float(json.loads(path.read_bytes()))

    def score(self, cell: Cell, progress: CountCallback = lambda done, total: None) -> CellResult:
        """Score the encoder of a trained cell and write that down; its checkpoints are of no more use.

        Leave-one-out over all photos, also where some are a test part: cells differ by little, more photos tell more.
        """
        run = RunFolder(_cell_folder(self.folder, cell.name))
        features = embed_labelled(self.probe, load_encoder(run.encoder), progress)
        knn, precision = evaluate_knn(features.vectors, features.labels).figures
        health = label_free_health(features.vectors)
        rows = read_rows(run.metrics)
        last = rows[-ceil(_END * len(rows)) :]
        filled = rows[-1].get("queue_fill", 1.0) == 1.0
        result = CellResult(
            knn_accuracy=knn.value,
            interval=wilson_interval(knn.value, len(features.labels)),
            chance=chance_accuracy(features.labels),
            precision_at_10=precision.value,
            effective_rank=health.effective_rank,
            collapsed=health.collapsed,
            loss=fmean(row["loss"] for row in last) if filled else None,
            contrastive_accuracy=fmean(row["accuracy"] for row in last) if filled else None,
        )
        if run.checkpoints.is_dir():  # not so after a kill right here
            shutil.rmtree(run.checkpoints)
        atomic_write(_result_file(self.folder, cell), result.model_dump_json(indent=1).encode())
        return result


def _read(path: Path) -> Facts:
    try:
        return Facts.model_validate(json.loads(path.read_bytes()))
    except ValueError as error:  # pydantic's and json's
        problem = str(error).splitlines()[0]
        raise BadSweep(f"{path} is damaged ({problem}): name another --out, or delete the folder.") from None


def _digest_of_run(run: Run) -> str:
    return _digest((photo.stamp.path, photo.stamp.size, photo.stamp.mtime_ns) for photo in run.batches.photos)


def _digest_of_probe(probe: LabelledPhotos) -> str:
    relative = (os.fsencode(path.relative_to(probe.root)) for path in probe.paths)
    return _digest(zip(relative, probe.labels.tolist(), strict=True))


def _digest(items: Iterable[object]) -> str:
    return blake2b(repr(list(items)).encode(), digest_size=16).hexdigest()


def _cell_folder(folder: Path, name: str) -> Path:
    return folder / "cells" / name


def _result_file(folder: Path, cell: Cell) -> Path:
    return _cell_folder(folder, cell.name) / "result.json"
