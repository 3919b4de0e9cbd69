"""`mocosearch doctor` and `mocosearch eval` as a person calls them: real processes, real photos."""

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import mocosearch
from mocosearch import user_folders
from mocosearch.cli import main
from mocosearch.encoders import EncoderCard, Preprocessing, save_encoder
from mocosearch.nets import build_backbone


def mocosearch_command(*arguments: str | Path, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, whose user folders lie in `home`."""
    return subprocess.run(
        [sys.executable, "-m", "mocosearch", *map(str, arguments)],
        env={**os.environ, "MOCOSEARCH_HOME": str(home), "COLUMNS": "120", **environment},
        cwd=home.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which this process looks for the user's encoder and library."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path / "home"


def doctor(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and the checks by name. In this process: each new one would import torch and gradio anew."""
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["status"] in {"ok", "warning", "broken"}
    assert isinstance(ended.value.code, int)
    return ended.value.code, {check["name"]: check for check in report["checks"]}


def test_doctor_reports_what_is_installed_and_what_the_machine_can_do(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, checks = doctor(capsys)
    assert status == 0
    assert checks["mocosearch"]["found"] == mocosearch.__version__
    for package in ("numpy", "pillow", "torch", "torchvision", "gradio"):
        assert checks[package]["found"].split("+")[0] == metadata.version(package).split("+")[0]
    assert checks["faiss"]["status"] == "ok"
    assert "cores" in checks["cpu"]["found"]
    assert checks["cpu"]["found"].endswith(("float32", "bfloat16"))
    assert {"WebP", "AVIF", "HEIC", "C++ compiler"} <= checks.keys()
    assert str(home) in checks["data folder"]["found"]
    assert "mocosearch train" in checks["current encoder"]["found"]
    assert "mocosearch index" in checks["last library"]["found"]
    assert not home.exists()  # looking changes nothing


def test_doctor_calls_a_package_that_cannot_be_imported_broken_and_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "faiss.py").write_text("raise ImportError('libgomp.so.1: cannot open\\nmore')")
    result = mocosearch_command("doctor", home=tmp_path / "home", PYTHONPATH=str(tmp_path / "shadow"))
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith("broken"))
    assert lines[at].split() == ["broken", "faiss", "cannot", "be", "imported:", "libgomp.so.1:", "cannot", "open"]
    assert lines[at + 1].strip() == "-> pip install --force-reinstall mocosearch"
    assert "more" not in lines
    assert any(line.split()[:2] == ["ok", "torch"] for line in lines)
    assert "\x1b" not in result.stdout  # no colors in a file


def test_doctor_goes_on_when_torch_is_broken(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    status, checks = doctor(capsys)
    assert status == 1
    assert checks["torch"]["status"] == checks["device"]["status"] == "broken"
    assert checks["WebP"]["status"] == "ok"


def test_doctor_warns_of_two_faiss_packages_and_says_how_to_get_back_to_one(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("faiss_cpu", "faiss_gpu"):
        folder = tmp_path / "packages" / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    status, checks = doctor(capsys)
    assert status == 0
    assert checks["faiss twice"]["status"] == "warning"
    assert "pip uninstall -y faiss-cpu faiss-gpu" in checks["faiss twice"]["remedy"]


def test_doctor_warns_of_a_missing_heic_decoder(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    status, checks = doctor(capsys)
    assert status == 0
    assert checks["HEIC"]["status"] == "warning"
    assert checks["HEIC"]["remedy"] == "pip install pi-heif"


def test_doctor_calls_a_data_folder_that_cannot_be_made_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "file" / "home"))
    status, checks = doctor(capsys)
    assert status == 1
    assert checks["data folder"]["status"] == "broken"
    assert "MOCOSEARCH_HOME" in checks["data folder"]["remedy"]


def test_doctor_names_the_current_encoder_and_the_last_library_and_warns_when_they_are_gone(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {"current encoder": tmp_path / "encoder", "last library": tmp_path / "photos"}
    for folder in folders.values():
        folder.mkdir()
    user_folders.set_current_encoder(folders["current encoder"])
    user_folders.set_last_library(folders["last library"])
    _, checks = doctor(capsys)
    for name, folder in folders.items():
        assert (checks[name]["status"], checks[name]["found"]) == ("ok", str(folder))
        folder.rmdir()
    status, checks = doctor(capsys)
    assert status == 0
    for name in folders:
        assert checks[name]["status"] == "warning"
        assert "gone" in checks[name]["found"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder that is small and untrained, but of fixed weights."""
    folder = tmp_path_factory.mktemp("run") / "encoder"
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


def test_eval_knn_prints_accuracy_and_precision_beside_chance_and_counts_what_it_skipped(
    home: Path, colors: Path, encoder: Path
) -> None:
    result = mocosearch_command("eval", "knn", colors, "--encoder", encoder, home=home)
    assert result.returncode == 0, result.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert rows[0][0] == "kNN accuracy (k = 20)"
    assert (rows[0][1], rows[0][3]) == ("1.000", "0.500")
    assert rows[1] == ["precision@10", "1.000", "", "0.478"]
    assert "24 of 2 classes" in result.stderr
    assert "2: 1 empty, 1 not-an-image" in result.stderr
    assert "resnet18, untrained" in result.stderr
    assert not home.exists()


def test_eval_knn_as_json_has_all_that_is_printed(
    home: Path, colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = evaluate("knn", colors, "--encoder", encoder.parent, "-k", "3", "--json", capsys=capsys)
    assert status == 0
    report = json.loads(out)
    assert report["protocol"] == "knn"
    assert (report["accuracy"], report["chance"], report["k"]) == (1.0, 0.5, 3)
    assert report["interval"] == pytest.approx([0.862, 1], abs=1e-3)
    assert report["precision_at_10"] == 1.0
    assert report["chance_precision"] == pytest.approx(11 / 23)
    assert (report["photos"], report["classes"], len(report["skipped"])) == (24, 2, 2)
    assert {Path(photo["path"]).name: photo["reason"] for photo in report["skipped"]} == {
        "empty.jpg": "empty",
        "text.jpg": "not-an-image",
    }
    assert len(report["fingerprint"]) == 16


def test_eval_linear_scores_photos_it_has_not_seen(
    home: Path, colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = evaluate("linear", colors, "--encoder", encoder, "--json", capsys=capsys)
    report = json.loads(out)
    assert status == 0
    assert (report["accuracy"], report["chance"], report["train"], report["test"]) == (1.0, 0.5, 20, 4)
    status, out, err = evaluate("linear", colors, "--encoder", encoder, capsys=capsys)
    assert "20 to learn from, 4 to score" in err
    assert "linear accuracy" in out
    assert "0.500" in out


def test_eval_takes_the_encoder_trained_last_or_says_how_to_get_one(
    home: Path, colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = evaluate("knn", colors, capsys=capsys)
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "mocosearch train" in err
    assert "--encoder, such as moco-v2-800ep" in err
    user_folders.set_current_encoder(encoder)
    assert evaluate("knn", colors, capsys=capsys)[0] == 0
    user_folders.set_current_encoder(encoder / "gone")
    status, _, err = evaluate("knn", colors, capsys=capsys)
    assert status == 1
    assert "is gone" in err


def test_eval_says_which_photos_are_alone_in_their_class(
    home: Path, colors: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (colors / "single").mkdir()
    shutil.copy(colors / "cold" / "0.png", colors / "single")
    status, out, err = evaluate("knn", colors, "--encoder", encoder, "--json", capsys=capsys)
    assert status == 0
    assert "1 of the scored photos are of a class that nothing else has, which counts as wrong" in err
    assert json.loads(out)["accuracy"] == 0.96


@pytest.mark.parametrize("protocol", ["knn", "linear"])
@pytest.mark.parametrize(
    ("remove", "message"),
    [
        (["cold", "warm"], "one folder of photos for each class"),
        (["cold"], "of one class"),
        (["cold/*.png"], "of one class (2 more cannot be read)"),
        (["."], "There is no folder"),
    ],
)
def test_eval_ends_with_one_line_on_folders_that_cannot_be_scored(
    home: Path,
    colors: Path,
    encoder: Path,
    capsys: pytest.CaptureFixture[str],
    protocol: str,
    remove: list[str],
    message: str,
) -> None:
    for pattern in remove:
        for path in [colors] if pattern == "." else list(colors.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    status, out, err = evaluate(protocol, colors, "--encoder", encoder, capsys=capsys)
    assert (status, out) == (1, "")
    assert message in err.splitlines()[-1]


def test_eval_refuses_photos_without_class_folders_before_it_looks_for_an_encoder(
    home: Path, colors: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = evaluate("knn", colors / "cold", capsys=capsys)
    assert status == 1
    assert "14 of 14 photos lie directly in" in err
    assert err.count("\n") == 1


def test_eval_usage_errors_are_those_of_the_command_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("knn", capsys=capsys)[0] == 2
    assert evaluate("knn", "DIR", "-k", "0", capsys=capsys)[0] == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_doctor_lists_every_gpu_with_its_memory_and_precision(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, checks = doctor(capsys)
    for index in range(torch.cuda.device_count()):
        found = checks[f"cuda:{index}"]["found"]
        assert found.startswith(torch.cuda.get_device_name(index))
        assert " GiB, " in found
        assert found.endswith(("float32", "bfloat16"))
