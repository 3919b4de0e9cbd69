"""`train` on several devices, here CPU processes: launched, joined, killed, interrupted, resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import Mocosearch, last_line, write_photos
from tests.processes import spawned_by

SMALL = ("--recipe", "demo", "--set", "views.crop=16", "--set", "batch=8")
ALONE = ("--workers", "0")  # no process beside each rank, which would import torch as well
PATIENCE = 150.0  # seconds until a process that imports torch several times has begun


@pytest.fixture
def mocosearch(tmp_path: Path) -> Mocosearch:
    write_photos(tmp_path / "photos")
    return Mocosearch(tmp_path)


def losses(run: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def started(mocosearch: Mocosearch, run: Path, *options: str) -> "subprocess.Popen[str]":
    """Start an endless run on two ranks and wait for its third step."""
    process = mocosearch.start(
        "train", "photos", *SMALL, *options, "--set", "schedule.epochs=9999", "--devices", "2", "--out", run
    )
    metrics = run / "metrics.jsonl"
    deadline = time.monotonic() + PATIENCE
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    return process


def test_two_devices_train_one_encoder_and_another_number_resumes(mocosearch: Mocosearch, tmp_path: Path) -> None:
    run = tmp_path / "run"
    once = (*SMALL, *ALONE, "--set", "schedule.epochs=1")
    out, err = mocosearch("train", "photos", *once, "--devices", "2", "--out", run)
    assert Path(out.strip()) == run / "encoder"
    assert err.count("Recipe   demo") == 1  # one rank speaks
    assert json.loads((run / "run.json").read_text())["ranks"] == 2
    assert len(losses(run)) == 2
    (run / "encoder" / "encoder.json").unlink()
    (run / "encoder" / "model.safetensors").unlink()
    (run / "encoder").rmdir()
    facts = json.loads((run / "run.json").read_text()) | {"total_steps": 4}
    (run / "run.json").write_text(json.dumps(facts))
    _, err = mocosearch("train", "--resume", *ALONE, "--out", run)
    assert "1 devices instead of 2" in err
    assert len(losses(run)) == 4


def test_when_a_rank_is_killed_the_others_end_with_one_readable_error(mocosearch: Mocosearch, tmp_path: Path) -> None:
    process = started(mocosearch, tmp_path / "run", *ALONE)
    ranks = spawned_by(process.pid)
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert last_line(err).startswith("The training process of rank 1 was killed by SIGKILL, so the others were ended")
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)


def test_ctrl_c_saves_on_several_devices_and_resume_goes_on(mocosearch: Mocosearch, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = started(mocosearch, run)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    done = len(losses(run))
    assert f"Stopped after step {done} of" in last_line(err)
    assert last_line(err).endswith(f"--resume --out {run}")
    facts = json.loads((run / "run.json").read_text()) | {"total_steps": done + 1}
    (run / "run.json").write_text(json.dumps(facts))
    _, err = mocosearch("train", "--resume", *ALONE, "--out", run, "--devices", "2")
    assert "devices instead of" not in err
    assert len(losses(run)) == done + 1


def test_what_cannot_be_trained_on_is_said_once(mocosearch: Mocosearch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    _, err = mocosearch("train", "empty", "--devices", "2", code=1)
    assert err.strip().count("\n") == 0
    assert "holds no photos" in err
    tiny = ("--set", "batch=3")
    _, err = mocosearch("train", "photos", *SMALL, *tiny, "--devices", "2", code=1)
    assert "A batch of 3 cannot be spread over 2 devices" in last_line(err)


def test_under_torchrun_the_command_joins_the_ranks_that_are_there(mocosearch: Mocosearch, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", "localhost:0", "-m", "mocosearch", "train", "photos", *SMALL]
    command += [*ALONE, "--set", "schedule.epochs=1"]
    done = subprocess.run(
        command, cwd=tmp_path, env=mocosearch.environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()  # one folder for both, though each has a clock
    assert done.stdout.strip() == str(run / "encoder")
    assert json.loads((run / "run.json").read_text())["ranks"] == 2
