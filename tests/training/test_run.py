import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.encoders import load_encoder
from mocosearch.errors import BadCheckpoint, Interrupted, NoPhotos, RunGoingOn, TrainingStopped
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training import run as run_module
from mocosearch.training.prepare import new_run
from mocosearch.training.run_folder import latest_unfinished
from mocosearch.training.trainer import StepReport
from tests.training.runs import STEPS, losses, make, resumed, train, weights


def test_a_finished_run_holds_a_usable_encoder_and_every_step(finished: Path) -> None:
    encoder = load_encoder(finished)
    assert encoder.dim == 512
    assert encoder.card.photos == 24
    assert encoder.card.steps == STEPS
    assert [step for step, _ in losses(finished)] == list(range(1, STEPS + 1))
    assert all(np.isfinite(loss) for _, loss in losses(finished))
    frozen = [json.loads(line)["path"] for line in (finished / "photos.jsonl").read_text().splitlines()]
    assert frozen == [f"{number:02}.png" for number in range(24)]
    assert json.loads((finished / "run.json").read_text())["total_steps"] == STEPS


def test_files_that_give_no_picture_are_listed_with_their_reasons(
    photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    for number in range(7):
        (photos / f"text {number}.jpg").write_text("not an image")
    run = make(photos, tiny_recipe, tmp_path / "run")
    assert len(run.skipped) == 7
    rows = [json.loads(line) for line in (tmp_path / "run" / "skipped.jsonl").read_text().splitlines()]
    assert [(row["path"], row["reason"]) for row in rows] == [(f"text {n}.jpg", "not-an-image") for n in range(7)]


def test_queries_learn_to_find_their_keys(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, color in enumerate(np.random.default_rng(0).integers(0, 256, (24, 3)).tolist()):
        Image.new("RGB", (32, 32), tuple(color)).save(folder / f"{number}.png")
    plain = ["views.color_jitter.p=0", "views.grayscale=0", "views.blur.p=0", "optimizer.lr_batch=8"]
    small = ["backbone.architecture=resnet18", "views.crop=16", "batch=8", "schedule.epochs=14"]
    recipe = load_recipe("demo", [*small, *plain])
    run = make(folder, recipe, tmp_path / "run")
    train(run)
    values = [loss for _, loss in losses(tmp_path / "run")]
    assert np.mean(values[-6:]) < 0.7 * run.chance_loss
    assert np.mean(values[-6:]) < np.mean(values[6:12]) - 0.3  # from where the queue holds keys of real images


def test_two_runs_give_the_same_bits(finished: Path, photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    train(make(photos, tiny_recipe, tmp_path / "again"))
    assert losses(tmp_path / "again") == losses(finished)
    for name, tensor in weights(finished).items():
        assert torch.equal(weights(tmp_path / "again")[name], tensor), name


def test_a_run_can_start_from_another_encoder(
    finished: Path, photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    still = tiny_recipe.model_copy(
        update={
            "backbone": tiny_recipe.backbone.model_copy(update={"architecture": "resnet50"}),
            "optimizer": tiny_recipe.optimizer.model_copy(update={"lr": 1e-12}),
        }
    )
    options = {"recipe_name": "demo", "minutes": None, "pack_folder": tmp_path / "pack", "workers": 0}
    run = new_run(photos, still, folder=tmp_path / "run", init=load_encoder(finished), **options)
    assert run.recipe.backbone.architecture == "resnet18"
    train(run)
    continued = weights(tmp_path / "run")
    for name, tensor in weights(finished).items():
        if name.startswith("backbone.") and name.endswith((".weight", ".bias")):
            torch.testing.assert_close(continued[name], tensor)
    assert "resnet18" in json.loads((tmp_path / "run" / "run.json").read_text())["init"]
    assert "continued from resnet18" in load_encoder(tmp_path / "run").card.trained_on


def test_a_run_that_is_going_on_is_left_alone(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = make(photos, tiny_recipe, folder)

    def others_come(report: StepReport) -> None:
        for other in (lambda: train(resumed(folder)), lambda: make(photos, tiny_recipe, folder)):
            with pytest.raises(RunGoingOn, match=re.escape(f"A run is going on in {folder}")):
                other()
        with pytest.raises(BadCheckpoint, match="no unfinished run"):
            latest_unfinished(tmp_path, photos)

    with pytest.raises(Interrupted):
        run.train(on_step=others_come, stop=lambda: True)
    assert [step for step, _ in losses(folder)] == [1]
    assert latest_unfinished(tmp_path, photos) == folder
    make(photos, tiny_recipe, folder)  # as if at the same moment
    with pytest.raises(RunGoingOn, match="Another run began"):
        train(run)


def test_of_a_finished_run_the_last_checkpoint_is_kept(
    photos: Path, tiny_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "CHECKPOINT_SECONDS", 0)
    train(make(photos, tiny_recipe, tmp_path / "run"))
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-00000012.pt"]


def test_minutes_become_a_number_of_steps_once(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    endless = tiny_recipe.model_copy(update={"schedule": tiny_recipe.schedule.model_copy(update={"epochs": 100_000})})
    run = make(photos, endless, tmp_path / "run", minutes=0.1)
    assert run.seconds_per_step is not None
    assert 1 <= run.total_steps < 300_000
    assert run.total_steps * run.seconds_per_step <= 6.0
    with pytest.raises(Interrupted):
        train(run, stop_after=1)
    assert resumed(tmp_path / "run").total_steps == run.total_steps


def test_weights_that_are_not_finite_do_not_replace_a_good_checkpoint(
    photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    wild = tiny_recipe.model_copy(update={"optimizer": tiny_recipe.optimizer.model_copy(update={"lr": 1e45})})
    with pytest.raises(TrainingStopped, match="weights are not finite after step 1: lower the learning rate"):
        train(make(photos, wild, tmp_path / "run"), stop_after=1)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000000.pt"]


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(
    photos: Path, tiny_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "CHECKPOINT_SECONDS", 0)
    wild = tiny_recipe.model_copy(update={"optimizer": tiny_recipe.optimizer.model_copy(update={"lr": 1e30})})
    run = make(photos, wild, tmp_path / "run")
    with pytest.raises(TrainingStopped, match=r"The loss became .* at step \d+"):
        train(run)
    assert not (tmp_path / "run" / "encoder").exists()
    assert list((tmp_path / "run" / "checkpoints").glob("*.pt"))


def test_too_few_photos_leave_no_run_behind(tmp_path: Path, photos: Path, tiny_recipe: Recipe) -> None:
    for path in sorted(photos.iterdir())[7:]:
        path.write_text("not an image")
    with pytest.raises(NoPhotos, match="at least 8 photos that can be read; found 7"):
        make(photos, tiny_recipe, tmp_path / "run")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(NoPhotos, match="holds no photos"):
        make(empty, tiny_recipe, tmp_path / "run")
    with pytest.raises(NoPhotos, match="no folder"):
        make(tmp_path / "missing", tiny_recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
