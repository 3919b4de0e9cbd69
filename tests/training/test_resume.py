"""A run that was stopped, killed, damaged or overtaken by changes goes on exactly, or says why not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mocosearch.encoders import load_encoder
from mocosearch.errors import BadCheckpoint, Interrupted
from mocosearch.recipes import Recipe
from mocosearch.training.prepare import resumed_run
from mocosearch.training.run_folder import latest_unfinished
from mocosearch.training.trainer import StepReport
from tests.training.runs import STEPS, losses, make, resumed, train, weights


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
    assert not resumed(folder).notices
    (photos / "03.png").write_bytes((photos / "04.png").read_bytes() + b" ")
    (photos / "05.png").unlink()
    (notice,) = resumed(folder).notices  # the pixels are still in the pack
    assert notice.startswith("2 photos changed or are gone, 03.png among them")
    (packed,) = (tmp_path / "pack").rglob("pack.sqlite")
    packed.unlink()
    with pytest.raises(BadCheckpoint, match=r"2 photos .* 03.png among them"):
        resumed(folder)
