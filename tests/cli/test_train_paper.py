"""The paper's own recipe, ResNet-50 at 224 pixels, through the real command: begun, stopped, resumed, finished."""

import json
import signal
import time
from pathlib import Path

from mocosearch.encoders import load_encoder
from tests.cli.commands import Mocosearch, last_line, write_photos

PATIENCE = 150.0  # seconds


def test_moco_v2_is_stopped_resumed_and_gives_a_resnet50_at_224(tmp_path: Path) -> None:
    mocosearch = Mocosearch(tmp_path)
    write_photos(tmp_path / "photos", count=8)
    run = tmp_path / "run"
    process = mocosearch.start(
        "train", "photos", "--recipe", "moco_v2", "--set", "batch=2", "--workers", "0", "--out", run
    )
    metrics = run / "metrics.jsonl"
    deadline = time.monotonic() + PATIENCE
    while not (metrics.exists() and metrics.read_text()):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "resnet50, crops of 224 pixels" in err
    assert f"mocosearch train --resume --out {run}" in last_line(err)

    done = metrics.read_text().count("\n")
    facts = json.loads((run / "run.json").read_text()) | {"total_steps": done + 1}  # of 800
    (run / "run.json").write_text(json.dumps(facts))
    out, _ = mocosearch("train", "--resume", "--workers", "0", "--out", run)
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == list(range(1, done + 2))
    encoder = load_encoder(out.strip())
    assert encoder.card.architecture == "resnet50"
    assert encoder.dim == 2048
    assert (encoder.preprocessing.resize, encoder.preprocessing.crop) == (256, 224)
    assert encoder.card.steps == done + 1
