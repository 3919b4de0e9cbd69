"""`mocosearch doctor` as a person calls it."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

import mocosearch
from mocosearch import user_folders
from mocosearch.cli import main


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
    assert lines[at + 1].strip() == "-> pip install --force-reinstall . in the checkout of mocosearch"
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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_doctor_lists_every_gpu_with_its_memory_and_precision(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, checks = doctor(capsys)
    for index in range(torch.cuda.device_count()):
        found = checks[f"cuda:{index}"]["found"]
        assert found.startswith(torch.cuda.get_device_name(index))
        assert " GiB, " in found
        assert found.endswith(("float32", "bfloat16"))
