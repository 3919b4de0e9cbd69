"""A sweep's folder is of one baseline, and says so."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from mocosearch.ablations import Baseline, Sweep
from mocosearch.errors import BadRecipe, BadSweep
from mocosearch.evaluation.labels.labelled import LabelledPhotos, find_labelled
from mocosearch.recipes import Recipe, load_recipe
from tests.training.photos import load_tiny_recipe, write_photos


@pytest.fixture
def labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabelledPhotos:
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        write_photos(tmp_path / "photos" / name)
    return find_labelled(tmp_path / "photos")


def open_sweep(labelled: LabelledPhotos, recipe: Recipe, minutes: float = 0.01) -> Sweep:
    folder = labelled.root.parent / "out"
    return Sweep.open(folder, labelled.root, recipe, minutes=minutes, probe=labelled)


def test_the_steps_are_measured_once_and_the_baseline_is_fitted_to_the_photos(labelled: LabelledPhotos) -> None:
    first = open_sweep(labelled, load_tiny_recipe())
    assert first.facts.steps >= 1
    assert (first.facts.photos, first.facts.recipe.method.queue) == (48, 12)
    assert open_sweep(labelled, load_tiny_recipe()).facts == first.facts


def test_another_recipe_or_other_minutes_are_never_mixed_in(labelled: LabelledPhotos) -> None:
    open_sweep(labelled, load_tiny_recipe())
    with pytest.raises(BadSweep, match="another --out"):
        open_sweep(labelled, load_tiny_recipe().model_copy(update={"seed": 5}))
    with pytest.raises(BadSweep, match="another --out"):
        open_sweep(labelled, load_tiny_recipe(), minutes=2)


def test_a_damaged_sweep_is_an_error(labelled: LabelledPhotos) -> None:
    folder = open_sweep(labelled, load_tiny_recipe()).folder
    content = (folder / "ablation.json").read_bytes()
    (folder / "ablation.json").write_bytes(content[: len(content) // 2])
    with pytest.raises(BadSweep, match="damaged"):
        open_sweep(labelled, load_tiny_recipe())


def test_another_probe_is_never_mixed_in(labelled: LabelledPhotos) -> None:
    sweep = open_sweep(labelled, load_tiny_recipe())
    with pytest.raises(BadSweep, match="scored on other photos"):
        Sweep.open(sweep.folder, labelled.root, load_tiny_recipe(), minutes=0.01, probe=labelled.thinned(20))


def test_a_cell_is_never_trained_on_other_photos_than_the_first(labelled: LabelledPhotos) -> None:
    sweep = open_sweep(labelled, load_tiny_recipe())
    baseline = Baseline(sweep.facts.recipe, sweep.facts.photos)
    (labelled.root / "b" / "new.png").write_bytes(labelled.paths[0].read_bytes())
    with pytest.raises(BadSweep, match="put them back"):
        sweep.run(baseline.cell({"method.momentum": 0.5}))


def test_a_cell_is_scored_by_its_last_steps_and_again_when_its_result_is_damaged(labelled: LabelledPhotos) -> None:
    sweep = open_sweep(labelled, load_tiny_recipe())
    sweep = replace(sweep, facts=sweep.facts.model_copy(update={"steps": 5}))
    cell = Baseline(sweep.facts.recipe, sweep.facts.photos).cell({"method.momentum": 0.5})
    run = sweep.run(cell)
    assert run is not None
    run.train(on_step=lambda report: None)
    assert sweep.run(cell) is None
    result = sweep.score(cell)
    steps = [json.loads(line) for line in (run.folder.metrics).read_text().splitlines()]
    assert (len(steps), result.loss, result.contrastive_accuracy) == (5, steps[-1]["loss"], steps[-1]["accuracy"])
    path = sweep.folder / "cells" / cell.name / "result.json"
    path.write_text("{")
    assert sweep.result(cell) is None
    assert sweep.score(cell) == sweep.result(cell) == result


def test_a_folder_whose_name_is_not_utf8_can_be_studied(labelled: LabelledPhotos) -> None:
    odd = labelled.root.with_name(os.fsdecode(b"od\xffd"))
    labelled.root.rename(odd)
    labelled = find_labelled(odd)
    assert open_sweep(labelled, load_tiny_recipe()).facts == open_sweep(labelled, load_tiny_recipe()).facts


def test_the_baseline_is_moco(labelled: LabelledPhotos) -> None:
    with pytest.raises(BadRecipe, match="take another --recipe"):
        open_sweep(labelled, load_recipe("end_to_end"))
