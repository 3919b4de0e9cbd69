"""A sweep's folder is of one baseline, and says so."""

from pathlib import Path

import pytest

from mocosearch.ablations import Sweep
from mocosearch.errors import BadRecipe, BadSweep
from mocosearch.evaluation.labelled import LabelledPhotos, find_labelled
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


def test_the_baseline_is_moco(labelled: LabelledPhotos) -> None:
    with pytest.raises(BadRecipe, match="take another --recipe"):
        open_sweep(labelled, load_recipe("end_to_end"))
