"""What a run shows while it trains: health, a probe's accuracy, the plot, TensorBoard. None of it touches training."""

import contextlib
import io
import itertools
import json
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from mocosearch.cli.training_progress import training_bar
from mocosearch.distributed.launch import launch
from mocosearch.errors import Interrupted, MissingExtra, NoPhotos, NotLabelled, TrainingStopped
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training import monitor
from mocosearch.training.build import preprocessing_of
from mocosearch.training.monitor import HealthReport, Probe, epochs_between_looks
from mocosearch.training.prepare import new_run, resumed_run
from mocosearch.training.run import Run
from mocosearch.training.run_folder import RunOptions
from mocosearch.training.trainer import StepReport
from tests.training.photos import load_tiny_recipe, write_photos

STEPS = 12  # 4 epochs of 3 steps


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a look cost what it will, so that a collection of 24 photos gets one every epoch."""
    monkeypatch.setattr(monitor, "SHARE", 1000)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    return write_labelled(tmp_path / "labelled")


def write_labelled(folder: Path) -> Path:
    """Write 24 photos into two folders."""
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
    write_photos(folder)
    for number, path in enumerate(sorted(folder.glob("*.png"))):
        path.rename(folder / "ab"[number % 2] / path.name)
    return folder


@dataclass(frozen=True)
class Seen:
    """An uninterrupted run that is looked at every epoch, and what a person saw of it."""

    folder: Path
    plots: list[bytes]  # at every look
    said: str
    generator_untouched: bool


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("straight")
    (folder / "photos").mkdir()
    write_photos(folder / "photos")
    probe = write_labelled(folder / "labelled")
    plots: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(io.StringIO()) as said:
        patch.setattr(monitor, "SHARE", 1000)
        run = make(folder / "photos", load_tiny_recipe(), folder / "run", probe=probe)
        generator = torch.random.get_rng_state()
        with training_bar(run) as bar:

            def on_health(report: HealthReport) -> None:
                bar.health(report)
                plots.append((folder / "run" / "training.png").read_bytes())

            run.train(on_step=bar.step, on_health=on_health)
        untouched = torch.equal(torch.random.get_rng_state(), generator)
    return Seen(folder / "run", plots, said.getvalue(), untouched)


def make(photos: Path, recipe: Recipe, folder: Path, *, steps: int | None = None, **options: Any) -> Run:
    return new_run(
        photos,
        recipe,
        recipe_name="demo",
        folder=folder,
        minutes=None,
        steps=steps,
        pack_folder=folder.parent / "pack",
        options=RunOptions(**options),
        workers=0,
    )


def rows(folder: Path, name: str = "health.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def losses(folder: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in rows(folder, "metrics.jsonl")]


def train(run: Run, *, stop_after: int | None = None) -> Path:
    steps = itertools.count(1)
    return run.train(on_step=lambda report: None, stop=lambda: next(steps) == stop_after)


def crash_at(step: int) -> Any:
    def on_step(report: StepReport) -> None:
        if report.step == step:
            raise ZeroDivisionError

    return on_step


def test_looking_at_every_epoch_changes_no_loss_and_no_weight(
    straight: Seen, photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    seldom = tmp_path / "run"
    train(make(photos, tiny_recipe, seldom))
    assert [row["step"] for row in rows(seldom)] == [0, STEPS]
    assert [row["step"] for row in rows(straight.folder)] == [0, 3, 6, 9, STEPS]
    assert losses(seldom) == losses(straight.folder)
    weights = [(folder / "encoder" / "model.safetensors").read_bytes() for folder in (seldom, straight.folder)]
    assert weights[0] == weights[1]
    assert straight.generator_untouched


def test_the_figures_are_in_their_ranges(straight: Seen) -> None:
    for row in rows(straight.folder):
        assert row["epoch"] == row["step"] / 3
        assert 1 <= row["effective_rank"] <= 24
        assert row["uniformity"] < 0 < row["alignment"]
        assert row["feature_spread"] > 0
        assert row["collapsed"] is False
        assert 0 <= row["knn_accuracy"] <= 1


@pytest.mark.usefixtures("often")
def test_a_resumed_run_writes_the_health_of_one_that_never_stopped(
    straight: Seen, photos: Path, labelled: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "run"
    with pytest.raises(Interrupted):  # at the end of an epoch, which is looked at after the resume
        train(make(photos, tiny_recipe, folder, probe=labelled, tensorboard=True), stop_after=6)
    assert [row["step"] for row in rows(folder)] == [0, 3]
    with pytest.raises(ZeroDivisionError):  # after a look that is in no checkpoint, so that it is done again
        resumed_run(folder, workers=0).train(on_step=crash_at(10))
    assert [row["step"] for row in rows(folder)] == [0, 3, 6, 9]
    train(resumed_run(folder, workers=0))
    assert rows(folder) == rows(straight.folder)

    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    read = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert read["train/loss"] == [(step, pytest.approx(loss)) for step, loss in losses(folder)]
    for name in ("effective_rank", "alignment", "knn_accuracy"):
        assert read[f"health/{name}"] == [(row["step"], pytest.approx(row[name])) for row in rows(folder)]
    assert {"train/accuracy", "train/lr", "train/queue_fill"} <= set(read)


def test_looks_cost_at_most_their_share_of_the_work() -> None:
    recipe = load_recipe("moco_v2_small")
    area = (128 / 96) ** 2
    for photos in (8, 100, 256, 2_000, 1_000_000):
        for probed in (False, True):
            epochs = epochs_between_looks(recipe, photos=photos, probed=probed)
            sample = min(256, photos)
            look = area * sample + 2 * min(128, sample) + (area * 512 if probed else 0)
            assert look <= 0.03 * (2 if probed else 1) * 4 * photos * epochs  # 4 for an image that trains
    assert epochs == 1


def test_looks_are_as_much_rarer_as_there_are_ranks_that_wait_for_them() -> None:
    recipe, photos = load_recipe("moco_v2_small"), 256
    epochs = launch(partial(epochs_between_looks, recipe, photos=photos, probed=False), 2)
    look = (128 / 96) ** 2 * photos + 2 * 128
    assert 2 * look <= 0.03 * 4 * photos * epochs


@pytest.mark.usefixtures("often")
def test_a_collapse_is_warned_of_once_and_a_healthy_run_is_not(
    straight: Seen, photos: Path, tiny_recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "rank" in straight.said
    assert "kNN" in straight.said
    assert "Warning" not in straight.said
    decay = tiny_recipe.optimizer.model_copy(update={"weight_decay": 2_000.0})  # takes every weight away at once
    run = make(photos, tiny_recipe.model_copy(update={"optimizer": decay}), tmp_path / "run", steps=6)
    with training_bar(run) as bar:
        run.train(on_step=bar.step, on_health=bar.health)
    assert [row["collapsed"] for row in rows(tmp_path / "run")] == [False, True, True]
    said = capsys.readouterr().err
    assert said.count("Warning") == said.count("collapsed at step 3: every photo gets nearly the same vector") == 1
    assert rows(tmp_path / "run", "metrics.jsonl")[-1]["loss"] < 1.01 * run.chance_loss  # which does not tell


def test_a_last_step_that_ruins_the_weights_gives_no_encoder(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    wild = tiny_recipe.model_copy(update={"optimizer": tiny_recipe.optimizer.model_copy(update={"lr": 1e38})})
    run = make(photos, wild, tmp_path / "run", steps=1)
    with pytest.raises(TrainingStopped, match="not finite after step 1: lower the learning rate"):
        train(run)
    assert not (tmp_path / "run" / "encoder").exists()


def test_a_bad_probe_is_refused_before_anything_is_written(
    photos: Path, labelled: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    for path in sorted((labelled / "b").iterdir()):
        path.write_text("not an image")
    for folder, error, words in (
        (tmp_path / "nowhere", NoPhotos, "no folder"),
        (photos, NotLabelled, "lie in no class folders"),
        (labelled, NotLabelled, "12 more cannot be read"),
    ):
        with pytest.raises(error, match=words):
            make(photos, tiny_recipe, tmp_path / "run", probe=folder)
        assert not (tmp_path / "run").exists()


def test_a_run_goes_on_without_a_probe_that_is_gone(
    photos: Path, labelled: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        train(make(photos, tiny_recipe, tmp_path / "run", steps=2, probe=labelled), stop_after=1)
    shutil.rmtree(labelled)
    run = resumed_run(tmp_path / "run", workers=0)
    assert run.notices[0].startswith("no kNN accuracy from here on: ")
    train(run)
    assert ["knn_accuracy" in row for row in rows(tmp_path / "run")] == [True, False]


def test_a_probe_of_many_photos_is_thinned(
    labelled: Path, tiny_recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "PROBED", 10)
    (labelled / "a" / "00.png").write_text("not an image")
    shutil.copy(labelled / "a" / "02.png", labelled / "of no class.png")
    probe = Probe.read(labelled, preprocessing_of(tiny_recipe))
    assert len(probe.pixels) == len(probe.labels) == 9
    assert probe.pixels.shape[1:] == (3, 32, 32)
    assert probe.stray == 1


def test_the_plot_is_a_picture_that_grows_with_the_run(straight: Seen) -> None:
    assert len(straight.plots) == 5
    assert straight.plots[0] != straight.plots[-1]
    with Image.open(straight.folder / "training.png") as picture:
        picture.load()
        assert picture.format == "PNG"
        assert min(picture.size) >= 600
    assert not list(straight.folder.glob(".*"))


def test_tensorboard_without_its_package_is_an_error_before_training(
    photos: Path, tiny_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtra, match=r"pip install 'mocosearch\[tensorboard\]'"):
        make(photos, tiny_recipe, tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()
