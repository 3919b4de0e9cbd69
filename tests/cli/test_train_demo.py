"""`train` and `demo` as a person meets them: real processes, real signals, a folder of one's own."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import timm
import torch

from mocosearch.encoders import load_encoder
from tests.cli.commands import Mocosearch, last_line, write_photos

QUICK = ("--set", "views.crop=16", "--set", "batch=8", "--set", "schedule.epochs=1")
ALONE = ("--workers", "0")  # no process beside it, which would import torch as well


@pytest.fixture
def mocosearch(tmp_path: Path) -> Mocosearch:
    return Mocosearch(tmp_path)


def test_train_index_and_search_follow_each_other_without_a_flag(mocosearch: Mocosearch, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    (photos / "broken.jpg").write_text("this is text")
    out, err = mocosearch("train", "photos", "--recipe", "demo", *QUICK)
    encoder = Path(out.strip())
    assert encoder.parent.parent == tmp_path / "runs"
    assert (encoder / "model.safetensors").is_file()
    for expected in (
        "demo (as asked)",
        "16 from",
        "1 skipped",
        "broken.jpg: not-an-image",
        "K 8",
        "Batch    8",
        str(encoder),
    ):
        assert expected in err
    assert f"mocosearch index {photos}" in err
    assert not list(photos.glob(".*"))
    out, err = mocosearch("index", "photos")
    assert "trained last" in err
    assert out.startswith("16 photos of")
    copy = tmp_path / "elsewhere.png"
    copy.write_bytes((photos / "3.png").read_bytes())
    out, _ = mocosearch("search", copy, "--json", "-k", "2")
    hits = json.loads(out)
    assert hits[0]["path"] == str(photos / "3.png")
    assert hits[0]["score"] == pytest.approx(1, abs=2e-3)
    assert hits[1]["score"] < hits[0]["score"]
    _, err = mocosearch("train", "photos", "--recipe", "demo", *QUICK)
    assert "So few steps (2)" in err
    assert f"not this one; to use it, delete '{photos / '.mocosearch'}' and index again" in err


def test_without_a_recipe_one_is_taken_that_suits_the_start(mocosearch: Mocosearch, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    torch.save(timm.create_model("test_resnet").state_dict(), tmp_path / "net.pth")
    mocosearch.environment["CUDA_VISIBLE_DEVICES"] = ""
    short = (
        "--minutes",
        "0.01",
        *ALONE,
        *QUICK[2:],
        "--set",
        "encoder_input.resize=32",
        "--set",
        "encoder_input.crop=32",
    )
    for start, recipe in ((("--init", "timm:test_resnet=net.pth"), "moco_v2_continued"), ((), "moco_v2_small")):
        out, err = mocosearch("train", "photos", *start, *short)
        assert f"{recipe} (" in err
        assert load_encoder(out.strip()).card.recipe == recipe


def test_ctrl_c_saves_and_resume_goes_on(mocosearch: Mocosearch, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    many = (*QUICK[:-1], "schedule.epochs=4000")
    process = mocosearch.start("train", "photos", "--recipe", "demo", *many, "--out", "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "Stopped after step" in last_line(err)
    assert last_line(err).endswith(f"mocosearch train --resume --out {tmp_path / 'run'}")
    assert not (tmp_path / "home" / "current-encoder.json").exists()

    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    done = metrics.read_text().count("\n")
    facts["total_steps"] = done + 2  # what is left of 8000 steps would take too long here
    (tmp_path / "run" / "run.json").write_text(json.dumps(facts))
    _, err = mocosearch("train", "home", "--resume", "--out", "run", code=2)
    assert "The run in run is one of other photos than home" in err
    out, err = mocosearch("train", "photos", "--resume", *ALONE, "--out", "run")
    assert "resumed" in err
    assert Path(out.strip()) == tmp_path / "run" / "encoder"
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == list(range(1, done + 3))
    _, err = mocosearch("train", "--resume", "--out", "run", code=1)
    assert "is finished; its encoder is" in last_line(err)


def test_a_closed_terminal_saves_too(mocosearch: Mocosearch, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    many = (*QUICK[:-1], "schedule.epochs=4000")
    command = [sys.executable, "-m", "mocosearch", "train", "photos", "--recipe", "demo", *many, "--out", "run"]
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execve(sys.executable, command, mocosearch.environment | {"TERM": "xterm"})
    metrics = tmp_path / "run" / "metrics.jsonl"
    os.set_blocking(terminal, False)
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        assert time.monotonic() < deadline
        with suppress(OSError):  # nothing to read yet
            os.read(terminal, 65536)
        time.sleep(0.05)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 130
    done = metrics.read_text().count("\n")
    assert (tmp_path / "run" / "checkpoints" / f"step-{done:08}.pt").exists()


def test_what_cannot_be_trained_on_ends_with_one_line(mocosearch: Mocosearch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_photos(tmp_path / "one", count=1)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "note.jpg").write_text("this is text")
    for folder, message in {
        "missing": "There is no folder",
        "empty": "holds no photos",
        "one": "at least 8 photos that can be read; found 1",
        "text": "at least 8 photos that can be read; found 0",
    }.items():
        out, err = mocosearch("train", folder, code=1)
        assert out == ""
        assert message in last_line(err)
        assert not (tmp_path / "runs").exists()


def test_flags_that_make_no_sense_are_usage_errors(mocosearch: Mocosearch, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", count=8)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    for arguments, message in (
        (("train",), "Name the folder of photos"),
        (("train", "photos", "--out", photos / "run"), "inside the folder of photos"),
        (("train", "photos", "--out", "full"), "is not empty"),
        (("train", "photos", "--minutes", "0"), "--minutes"),
        (("train", "--resume", "--minutes", "3"), "fixed for a run"),
        (("train", "photos", "--init", "e", "--set", "backbone.small_stem=true"), "are those of --init"),
        (("train", "photos", "--init", "e", "--set", "views.mean=[0, 0, 0]"), "leave out --set views.mean=[0, 0, 0]"),
        (("demo", "--keep", "full"), "is not empty"),
        (("demo", "--photos", "photos", "--keep", photos / "demo"), "inside the folder of photos"),
    ):
        _, err = mocosearch(*arguments, code=2)
        assert message in last_line(err)
    for arguments, message in (
        (("train", "photos", "--recipe", "moco_v3"), "No recipe 'moco_v3' (did you mean 'moco_v"),
        (("train", "photos", "--set", "temperature=0.1"), "did you mean 'method.temperature'"),
        (("train", "--resume", "--out", "full"), "holds no training run"),
        (("train", "--resume"), "no unfinished run"),
        (("demo", "--photos", "nowhere"), "There is no folder"),
    ):
        _, err = mocosearch(*arguments, code=1)
        assert message in last_line(err)
    assert (tmp_path / "full" / "file").read_text() == "mine"


def test_a_run_started_inside_the_photos_is_kept_elsewhere(mocosearch: Mocosearch, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    mocosearch.folder = photos
    out, _ = mocosearch("train", ".", "--recipe", "demo", *QUICK, *ALONE)
    assert Path(out.strip()).is_relative_to(tmp_path / "home" / "runs")
    assert sorted(path.name for path in photos.iterdir()) == sorted(f"{n}.png" for n in range(16))


def test_a_full_disk_while_training_ends_with_one_line(mocosearch: Mocosearch, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", small], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here: needs root")
    try:
        _, err = mocosearch("train", "photos", "--recipe", "demo", *QUICK, *ALONE, "--out", small / "run", code=1)
        assert "No space left on the disk" in last_line(err)
        assert not (small / "run" / "encoder").exists()
    finally:
        subprocess.run(["umount", small], check=True)


def test_the_demo_on_ones_own_photos_keeps_to_its_folder(mocosearch: Mocosearch, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", count=24)
    out, err = mocosearch("demo", "--photos", "photos", "--minutes", "0.02", "--no-serve", "--keep", "kept")
    for word in ("effective rank", "untrained", "trained"):
        assert word in out
    assert "accuracy" not in out
    assert (tmp_path / "kept" / "run" / "encoder" / "encoder.json").is_file()
    assert (tmp_path / "kept" / "index" / "catalog.sqlite").is_file()
    assert len(list(photos.iterdir())) == 24
    assert not (tmp_path / "home").exists()  # nobody's current encoder, nobody's library
    assert "Kept in" in err
