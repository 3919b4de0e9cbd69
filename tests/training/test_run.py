import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.encoders import load_encoder
from mocosearch.errors import BadCheckpoint, Interrupted, NoPhotos, RunGoingOn, TrainingStopped
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training import run as run_module
from mocosearch.training.prepare import new_run, resumed_run
from mocosearch.training.records import read_rows
from mocosearch.training.run import Run
from mocosearch.training.run_folder import latest_unfinished, make_unused
from mocosearch.training.trainer import StepReport
from tests.training.photos import load_tiny_recipe, write_photos

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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run over the same photos as the fixture `photos`, to compare the others with."""
    folder = tmp_path_factory.mktemp("straight")
    (folder / "photos").mkdir()
    write_photos(folder / "photos")
    train(make(folder / "photos", load_tiny_recipe(), folder / "run"))
    return folder / "run"


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
    recipe = load_recipe("demo", ["views.crop=16", "batch=8", "schedule.epochs=14", *plain])
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


@pytest.mark.parametrize("stop_after", [1, 5, 11])
def test_a_stopped_run_resumes_bit_for_bit(
    finished: Path, photos: Path, tiny_recipe: Recipe, tmp_path: Path, stop_after: int
) -> None:
    folder = tmp_path / "stopped"
    with pytest.raises(Interrupted, match=rf"after step {stop_after} of {STEPS}.*--resume") as stopped:
        train(make(photos, tiny_recipe, folder), stop_after=stop_after)
    assert stopped.value.exit_code == 130
    assert not (folder / "encoder").exists()
    assert latest_unfinished(tmp_path, photos) == folder
    train(resumed(folder))
    assert losses(folder) == losses(finished)
    for name, tensor in weights(finished).items():
        assert torch.equal(weights(folder)[name], tensor), name


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


KILLED = """
import os, signal, sys
from pathlib import Path
from mocosearch.training import prepare, run
run.CHECKPOINT_SECONDS = float(sys.argv[2])
def on_step(report):
    if report.step == 6:
        os.kill(os.getpid(), signal.SIGKILL)
prepare.resumed_run(Path(sys.argv[1]), workers=2).train(on_step=on_step)
"""


@pytest.mark.parametrize("seconds_between_checkpoints", [0, 999])
def test_a_killed_run_resumes_bit_for_bit_with_any_number_of_workers(
    finished: Path, photos: Path, tiny_recipe: Recipe, tmp_path: Path, seconds_between_checkpoints: int
) -> None:
    folder = tmp_path / "killed"
    with pytest.raises(Interrupted):
        train(make(photos, tiny_recipe, folder), stop_after=2)
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, folder, str(seconds_between_checkpoints)], check=False, env=environment
    )
    assert killed.returncode == -signal.SIGKILL
    assert losses(folder)[-1][0] == 6  # in the metrics, but not in a checkpoint: the resumed run repeats it
    halves = [folder / ".training.png.0.partial", folder / "checkpoints" / ".step-00000006.pt.0.partial"]
    for half in halves:  # as a kill in the middle of writing leaves them
        half.touch()
    kept = sorted(path.name for path in (folder / "checkpoints").glob("step-*.pt"))
    assert kept[-1] == ("step-00000002.pt" if seconds_between_checkpoints else "step-00000005.pt")
    train(resumed(folder, workers=1 if seconds_between_checkpoints else 0))
    assert not any(half.exists() for half in halves)
    assert losses(folder) == losses(finished)
    for name, tensor in weights(finished).items():
        assert torch.equal(weights(folder)[name], tensor), name


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


def test_the_newest_run_that_can_go_on_is_found_past_others(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(make(photos, tiny_recipe, tmp_path / "good"), stop_after=1)
    make(photos, tiny_recipe, tmp_path / "never began")
    (tmp_path / "damaged" / "checkpoints").mkdir(parents=True)
    (tmp_path / "damaged" / "checkpoints" / "step-00000001.pt").touch()
    (tmp_path / "damaged" / "run.json").write_text("{")
    assert latest_unfinished(tmp_path, photos) == tmp_path / "good"
    assert latest_unfinished(tmp_path, None) == tmp_path / "good"


def test_a_folder_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    names = [make_unused(tmp_path / "runs" / "demo").name for _ in range(3)]
    assert names == ["demo", "demo-2", "demo-3"]


@pytest.mark.parametrize("damage", ["null", "3", '{"loss": 1}', '{"step": 2, "lo'])
def test_a_damaged_line_ends_what_is_read_of_the_metrics(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1}}\n{damage}\n{{"step": 3}}\n')
    assert read_rows(path) == [{"step": 1}]


def test_of_a_finished_run_the_last_checkpoint_is_kept(
    photos: Path, tiny_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "CHECKPOINT_SECONDS", 0)
    train(make(photos, tiny_recipe, tmp_path / "run"))
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-00000012.pt"]


def test_a_run_that_was_killed_while_it_wrote_its_encoder_finishes(
    finished: Path, photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    train(make(photos, tiny_recipe, tmp_path / "run"))
    (tmp_path / "run" / "encoder" / "encoder.json").unlink()  # written last
    assert latest_unfinished(tmp_path, None) == tmp_path / "run"
    train(resumed_run(tmp_path / "run"))
    assert load_encoder(tmp_path / "run").fingerprint == load_encoder(finished).fingerprint


def test_a_run_can_be_resumed_from_before_its_first_step(
    finished: Path, photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    folder = tmp_path / "run"

    def fails(report: StepReport) -> None:
        raise ZeroDivisionError

    run = make(photos, tiny_recipe, folder)
    assert run.folder.never_began()
    with pytest.raises(ZeroDivisionError):
        run.train(on_step=fails)
    assert not run.folder.never_began()
    train(resumed(folder))
    assert losses(folder) == losses(finished)


def test_minutes_become_a_number_of_steps_once(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    endless = tiny_recipe.model_copy(update={"schedule": tiny_recipe.schedule.model_copy(update={"epochs": 100_000})})
    run = make(photos, endless, tmp_path / "run", minutes=0.1)
    assert run.seconds_per_step is not None
    assert 1 <= run.total_steps < 300_000
    assert run.total_steps * run.seconds_per_step <= 6.0
    with pytest.raises(Interrupted):
        train(run, stop_after=1)
    assert resumed(tmp_path / "run").total_steps == run.total_steps


def test_resuming_what_cannot_be_resumed_is_an_error_and_changes_nothing(
    finished: Path, photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    with pytest.raises(BadCheckpoint, match="is finished; its encoder is"):
        resumed(finished)
    with pytest.raises(BadCheckpoint, match="holds no training run"):
        resumed(tmp_path / "nowhere")
    with pytest.raises(BadCheckpoint, match="no unfinished run"):
        latest_unfinished(tmp_path, photos)
    started = tmp_path / "started"
    run = make(photos, tiny_recipe, started)
    with pytest.raises(BadCheckpoint, match="no checkpoint to resume from"):
        train(resumed(started))
    with pytest.raises(Interrupted):
        train(run, stop_after=4)
    checkpoint = max((started / "checkpoints").iterdir())
    whole = checkpoint.read_bytes()
    middle = len(whole) // 2  # of a tensor
    flipped = whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 4]) + whole[middle + 4 :]
    for damaged in (b"", whole[:middle], b"\x00" * 1000, flipped):
        checkpoint.write_bytes(damaged)
        with pytest.raises(BadCheckpoint, match="damaged"):
            train(resumed(started))
    checkpoint.write_bytes(whole)
    (started / "run.json").write_text('{"format": 1')
    with pytest.raises(BadCheckpoint, match="damaged"):
        resumed(started)
    (started / "run.json").write_text('{"format": 99}')
    with pytest.raises(BadCheckpoint, match="newer version"):
        resumed(started)


def test_a_checkpoint_that_the_run_did_not_write_is_refused(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(make(photos, tiny_recipe, folder), stop_after=1)
    path = max((folder / "checkpoints").iterdir())
    own = torch.load(path, weights_only=True)
    lacking = {"method": {"queue": torch.zeros(1)}}
    for change in ({"run": "0" * 32}, {"step": -1}, {"step": STEPS + 1}, {"step": None}, lacking, {"optimizer": {}}):
        torch.save(own | change, path)
        with pytest.raises(BadCheckpoint, match="is not of this run"):
            train(resumed(folder))
    del own["run"]
    torch.save(own, path)
    facts = json.loads((folder / "run.json").read_text())
    del facts["id"]  # as older versions wrote both
    (folder / "run.json").write_text(json.dumps(facts))
    with pytest.raises(Interrupted):
        train(resumed(folder), stop_after=1)


def test_weights_that_are_not_finite_do_not_replace_a_good_checkpoint(
    photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    wild = tiny_recipe.model_copy(update={"optimizer": tiny_recipe.optimizer.model_copy(update={"lr": 1e45})})
    with pytest.raises(TrainingStopped, match="weights are not finite after step 1: lower the learning rate"):
        train(make(photos, wild, tmp_path / "run"), stop_after=1)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000000.pt"]


def test_a_checkpoint_that_would_run_code_is_refused(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(make(photos, tiny_recipe, folder), stop_after=1)

    class Malicious:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'executed'}",)

    torch.save({"format": 1, "step": 1, "method": Malicious()}, max((folder / "checkpoints").iterdir()))
    with pytest.raises(BadCheckpoint):
        train(resumed(folder))
    assert not (tmp_path / "executed").exists()


def test_a_photo_that_changed_since_the_start_is_named(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(make(photos, tiny_recipe, folder), stop_after=1)
    (photos / "03.png").write_bytes((photos / "04.png").read_bytes() + b" ")
    resumed(folder)  # its pixels are still in the pack
    (packed,) = (tmp_path / "pack").rglob("pack.sqlite")
    packed.unlink()
    with pytest.raises(BadCheckpoint, match=r"1 photos .* 03.png among them"):
        resumed(folder)


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
