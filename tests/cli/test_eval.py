"""`mocosearch eval` as a person calls it: real photos, real encoders, every protocol."""

import csv
import errno
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch import user_folders
from mocosearch.cli import main
from mocosearch.cli.eval.encoders import names_of
from mocosearch.cli.main import cli
from mocosearch.encoders import EncoderCard, Preprocessing, save_encoder
from mocosearch.nets import build_backbone
from tests.cli.commands import last_line


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command looks for the user's encoder."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "home"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder that is small and untrained, but of fixed weights."""
    folder = tmp_path_factory.mktemp("runs") / "mine" / "encoder"
    torch.manual_seed(0)
    backbone = build_backbone("resnet18", small_stem=True)
    state = {f"backbone.{name}": tensor for name, tensor in backbone.state_dict().items()}
    card = EncoderCard("resnet18", True, None, "nothing", 0, 0, "none", "2026-01-01T00:00:00")
    save_encoder(folder, state, card, Preprocessing(32, 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)))
    return folder


@pytest.fixture
def colors(tmp_path: Path) -> Path:
    """Two classes that even an untrained network tells apart, 12 photos each, and two files that are no photos."""
    root = tmp_path / "photos"
    generator = np.random.default_rng(0)
    for name, color in (("warm/red", (200, 40, 40)), ("cold", (30, 60, 190))):
        (root / name).mkdir(parents=True)
        for number in range(12):
            noise = generator.integers(-30, 30, (40, 48, 3))
            Image.fromarray((np.array(color) + noise).clip(0, 255).astype(np.uint8)).save(root / name / f"{number}.png")
    (root / "cold" / "text.jpg").write_text("not a photo")
    (root / "cold" / "empty.jpg").touch()
    return root


def evaluate(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `mocosearch eval`."""
    with pytest.raises(SystemExit) as ended:
        main(["eval", *map(str, arguments)])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def told(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `mocosearch eval --json` says."""
    status, out, err = evaluate(*arguments, "--json", capsys=capsys)
    assert status == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


def test_knn_prints_figures_with_intervals_beside_chance_and_counts_what_it_skipped(
    home: Path, colors: Path, encoder: Path
) -> None:
    command = [sys.executable, "-m", "mocosearch", "eval", "knn", colors, "--encoder", encoder]
    result = subprocess.run(command, env=os.environ, cwd=home.parent, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["kNN", "accuracy", "1.000", "0.862", "to", "1.000", "0.500"] in rows
    assert ["precision@10", "1.000", "0.862", "to", "1.000", "0.478"] in rows
    assert "24 of 2 classes" in result.stderr
    assert "2: 1 empty, 1 not-an-image" in result.stderr
    assert "resnet18, untrained" in result.stderr
    assert not home.exists()


def test_json_has_all_that_is_printed(colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = told("knn", colors, "--encoder", encoder.parent, "-k", "3", "--temperature", "0.1", capsys=capsys)
    assert report["protocol"] == "knn"
    [mine] = report["encoders"]
    accuracy = mine["figures"]["kNN accuracy"]
    assert (accuracy["value"], accuracy["chance"]) == (1.0, 0.5)
    assert accuracy["interval"] == pytest.approx([0.862, 1], abs=1e-3)
    assert mine["figures"]["precision@10"]["chance"] == pytest.approx(11 / 23)
    assert (mine["facts"]["k"], mine["facts"]["temperature"], mine["name"], mine["dim"]) == (3, 0.1, "mine", 512)
    assert (report["photos"], report["classes"], report["stray"]) == (24, 2, 0)
    assert {Path(photo["path"]).name: photo["reason"] for photo in report["skipped"]} == {
        "empty.jpg": "empty",
        "text.jpg": "not-an-image",
    }
    assert len(mine["fingerprint"]) == 16
    assert mine["curves"][0]["x"][:3] == [1, 2, 5]
    called = f"mocosearch eval knn {colors} --encoder {encoder.parent} --json -k 3 --temperature 0.1"
    assert report["command"] == called


def test_encoders_are_compared_on_the_same_photos_and_the_same_encoder_is_a_tie(
    colors: Path, encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    against = ("--against", "untrained", "--against", encoder)
    status, out, err = evaluate("knn", colors, "--encoder", encoder, *against, "--report", page, capsys=capsys)
    assert status == 0, err
    assert max(map(len, out.splitlines())) <= 80
    rows = [line.split() for line in out.splitlines()]
    assert ["mine", "(2)", "1.000", "0.862", "to", "1.000", "0.000", "0.000", "to", "0.000", "tie"] in rows
    assert [row[-1] for row in rows if row[:1] == ["untrained"]] == ["tie", "tie"]
    assert "Encoder  untrained: resnet18, untrained" in err
    assert f"Report   '{page}'" in err
    html = page.read_text(encoding="utf-8")
    assert "--against untrained" in html
    assert html.count("Searched with: ") == 24  # 8 for each encoder


def test_encoders_are_called_by_their_folders_and_never_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/mine/encoder", "photos/.mocosearch/encoder"):
        (tmp_path / folder).mkdir(parents=True)
    specs = [
        "runs/mine",
        "runs/mine/encoder",
        "photos/.mocosearch/encoder",
        "torchvision:resnet50",
        "untrained",
        "a\nb",
        "mine (2)",
        "runs/mine",
        "timm:resnet26=downloads/model.safetensors",
    ]
    assert names_of(specs) == [
        "mine",
        "mine (2)",
        "photos",
        "torchvision:resnet50",
        "untrained",
        "a\\nb",
        "mine (2) (2)",
        "mine (3)",
        "timm:resnet26=model.safetensors",
    ]


def test_a_report_with_no_place_is_refused_before_anything_is_embedded(
    colors: Path, encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thesis = tmp_path / "thesis.html"
    thesis.write_text("mine")
    for place, message in ((thesis, "no report of an evaluation"), (tmp_path / "no" / "r.html", "There is no folder")):
        status, out, err = evaluate("knn", colors, "--encoder", encoder, "--report", place, capsys=capsys)
        assert (status, out) == (1, "")
        assert message in last_line(err)
        assert "Photos" not in err
    assert thesis.read_text() == "mine"


class Full(io.StringIO):
    """A stream into a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_figures_that_cannot_be_printed_do_not_cost_the_report(
    colors: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "report.html"
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(OSError, match="No space"):
        cli.main(["eval", "knn", *map(str, (colors, "--encoder", encoder, "--report", page))], standalone_mode=False)
    assert "kNN accuracy" in page.read_text(encoding="utf-8")


def test_neither_a_full_log_nor_a_narrow_terminal_costs_figures(
    colors: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", Full())
    monkeypatch.setenv("COLUMNS", "30")
    status, out, _ = evaluate("knn", colors, "--encoder", encoder, capsys=capsys)
    assert status == 0
    assert "kNN accuracy 1.000 0.862 to 1.000 0.500" in out


def test_retrieval_says_what_is_found_exactly_and_through_an_index(
    colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = told("retrieval", colors, "--encoder", encoder, "--search", "exact", "--dim", "4", capsys=capsys)
    [mine] = report["encoders"]
    assert mine["figures"]["mAP"]["value"] == 1.0
    assert mine["figures"]["precision@10"]["value"] == 1.0
    assert any("index" in name for name in mine["figures"])
    assert mine["facts"]["scored"] == 24


def test_retrieval_by_pairs_searches_for_the_other_of_each_pair(
    colors: Path, encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(colors / "cold" / "0.png", colors / "copy.png")
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("one", "other"), ("cold/0.png", "copy.png"), ("cold/1.png", "cold/text.jpg")])
    arguments = ("--encoder", encoder, "--pairs", tmp_path / "pairs.csv")
    report = told("retrieval", colors, *arguments, capsys=capsys)
    [mine] = report["encoders"]
    assert (report["photos"], report["classes"]) == (25, None)
    assert (mine["facts"]["scored"], mine["figures"]["mAP"]["value"]) == (2, 1.0)


def test_classes_and_parts_may_come_from_a_csv_file(
    colors: Path, encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        (f"{folder}/{number}.png", folder, "test" if number < 3 else "train")
        for folder in ("cold", "warm/red")
        for number in range(12)
    ]
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "class", "split"), *rows])
    report = told("knn", colors, "--encoder", encoder, "--labels", tmp_path / "labels.csv", capsys=capsys)
    facts = report["encoders"][0]["facts"]
    assert (report["photos"], facts["scored"], facts["searched"], report["skipped"]) == (24, 6, 18, [])
    status, _, err = evaluate("knn", colors, "--labels", tmp_path / "none.csv", capsys=capsys)
    assert status == 1
    assert "none.csv" in err


def test_the_fast_linear_probe_scores_photos_it_has_not_seen(
    colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = told("linear", colors, "--encoder", encoder, "--fast", capsys=capsys)
    assert report["protocol"] == "linear --fast"
    [mine] = report["encoders"]
    assert mine["figures"]["linear accuracy"]["value"] == 1.0
    assert (mine["facts"]["train"], mine["facts"]["test"]) == (20, 4)


def test_the_papers_linear_protocol_runs_for_as_many_epochs_as_asked(
    colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("linear", colors, "--encoder", encoder, "--against", "untrained", "--epochs", "2", "--devices", "1")
    status, out, err = evaluate(*arguments, "--json", capsys=capsys)
    assert status == 0, err
    assert "Photos   26 of 2 classes\n" in err  # two of which cannot be read
    report = json.loads(out)
    assert report["protocol"] == "linear"
    [mine, untrained] = report["encoders"]
    for scored in (mine, untrained):  # the second may take hours and fail
        assert f"linear accuracy of {scored['name']}: {scored['figures']['linear accuracy']['value']:.4f}\n" in err
    assert (mine["facts"]["epochs"], mine["facts"]["train"], mine["facts"]["test"]) == (2, 19, 5)
    assert mine["notices"][0].startswith("2 photos cannot be read")
    assert mine["figures"]["linear accuracy"]["chance"] == 0.4  # of 3 cold and 2 warm, as more warm ones were learned
    assert len(mine["curves"][0]["x"]) == 2


def test_health_needs_no_labels(colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = evaluate("health", colors / "cold", "--encoder", encoder, capsys=capsys)
    assert status == 0, err
    for figure in ("effective rank", "uniformity", "feature spread", "alignment", "neighbor stability"):
        assert figure in out
    assert "Photos   12\n" in err
    (colors / "empty").mkdir()
    status, _, err = evaluate("health", colors / "empty", "--encoder", encoder, capsys=capsys)
    assert status == 1
    assert "No photos in" in err


def test_eval_takes_the_encoder_trained_last_or_says_how_to_get_one(
    colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = evaluate("knn", colors, capsys=capsys)
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "mocosearch train" in err
    assert "--encoder, such as moco-v2-800ep" in err
    user_folders.set_current_encoder(encoder)
    assert evaluate("knn", colors, capsys=capsys)[0] == 0
    assert evaluate("knn", colors, "--encoder", "", capsys=capsys)[0] == 1  # a variable that is not set
    user_folders.set_current_encoder(encoder / "gone")
    status, _, err = evaluate("knn", colors, capsys=capsys)
    assert status == 1
    assert "is gone" in err


def test_an_encoder_that_is_none_is_refused_before_the_first_one_embeds(
    colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = evaluate("knn", colors, "--encoder", encoder, "--against", "nonsense", capsys=capsys)
    assert (status, out) == (1, "")
    assert "nonsense" in last_line(err)
    assert "Photos" not in err


def test_what_counts_as_wrong_or_is_left_out_is_said(
    colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (colors / "single").mkdir()
    shutil.copy(colors / "cold" / "0.png", colors / "single")
    shutil.copy(colors / "cold" / "0.png", colors)
    status, out, err = evaluate("knn", colors, "--encoder", encoder, "--json", capsys=capsys)
    assert status == 0
    assert "Note     For 1 of the scored photos" in err
    assert "Stray    1 " in err
    report = json.loads(out)
    assert report["encoders"][0]["figures"]["kNN accuracy"]["value"] == 0.96
    assert report["stray"] == 1


@pytest.mark.parametrize("protocol", [["knn"], ["linear", "--fast"]])
@pytest.mark.parametrize(
    ("remove", "message"),
    [
        (["cold", "warm"], "one folder of photos for each class"),
        (["cold"], "of one class"),
        (["cold/*.png"], "of one class (2 more cannot be read)"),
        (["."], "There is no folder"),
    ],
)
def test_folders_that_cannot_be_scored_end_with_one_line(
    colors: Path,
    encoder: Path,
    capsys: pytest.CaptureFixture[str],
    protocol: list[str],
    remove: list[str],
    message: str,
) -> None:
    for pattern in remove:
        for path in [colors] if pattern == "." else list(colors.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    status, out, err = evaluate(*protocol, colors, "--encoder", encoder, capsys=capsys)
    assert (status, out) == (1, "")
    assert message in last_line(err)


def test_photos_without_class_folders_are_refused_before_an_encoder_is_looked_for(
    colors: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = evaluate("knn", colors / "cold", capsys=capsys)
    assert status == 1
    assert "The 14 photos of" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["knn"],
        ["knn", "DIR", "-k", "0"],
        ["knn", "DIR", "--temperature", "0"],
        ["retrieval", "DIR", "--labels", "a.csv", "--pairs", "b.csv"],
        ["linear", "DIR", "--fast", "--epochs", "3"],
        ["health", "DIR", "--labels", "a.csv"],
    ],
)
def test_usage_errors_are_those_of_the_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(*arguments, capsys=capsys)[0] == 2
