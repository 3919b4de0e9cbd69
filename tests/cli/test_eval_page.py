"""Every command of docs/evaluation.md that needs nothing special runs, and its JSON is what the page shows."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch import user_folders
from mocosearch.cli import main
from mocosearch.encoders import EncoderCard, Preprocessing, save_encoder
from mocosearch.nets import build_backbone

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the page speaks of: photos in class folders, others with CSV files beside them, an encoder trained last."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in [
        *(f"labelled/{kind}/{n}.png" for kind in ("owl", "heron") for n in range(5)),
        "photos/a.png",
        "photos/b.png",
        "photos/c.png",
        "photos/d.png",
    ]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(path)
    (tmp_path / "pairs.csv").write_text("one,other\na.png,b.png\n")
    (tmp_path / "labels.csv").write_text("path,label\na.png,owl\nb.png,owl\nc.png,heron\nd.png,heron\n")
    state = {
        f"backbone.{name}": tensor for name, tensor in build_backbone("resnet18", small_stem=True).state_dict().items()
    }
    card = EncoderCard("resnet18", True, None, "nothing", 0, 0, "none", "")
    save_encoder(tmp_path / "runs/mine/encoder", state, card, Preprocessing(32, 32, (0.5,) * 3, (0.25,) * 3))
    user_folders.set_current_encoder(tmp_path / "runs/mine/encoder")
    return tmp_path


def commands() -> list[list[str]]:
    """The commands of the page that need no network."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks if "# needs:" not in block for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_every_command_of_the_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called = commands()
    assert {arguments[1] for arguments in called} == {"knn", "retrieval", "linear", "health"}
    printed = []
    for arguments in called:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        said = capsys.readouterr()
        assert ended.value.code == 0, (arguments, said.err)
        printed.append(said.out)
    assert (folder / "report.html").stat().st_size > 10_000
    [told] = [json.loads(out) for out in printed if out.startswith("{")]
    [example] = [
        block
        for block in re.findall(r"^```json\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        if block.startswith("{")
    ]
    shown = json.loads(example)
    assert shown.keys() == told.keys()
    assert shown["encoders"][0].keys() == told["encoders"][0].keys()
    assert (
        shown["encoders"][0]["figures"]["kNN accuracy"].keys() == told["encoders"][0]["figures"]["kNN accuracy"].keys()
    )
