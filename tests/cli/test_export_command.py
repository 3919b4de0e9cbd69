"""`mocosearch export encoder` as a person calls it."""

from pathlib import Path

import pytest
import torch

from mocosearch import user_folders
from mocosearch.cli import main
from mocosearch.encoders import EncoderCard, Preprocessing, load_encoder, save_encoder
from mocosearch.nets import build_backbone

SEEN = Preprocessing(resize=40, crop=32, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an encoder that counts as the one trained last."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    state = {f"backbone.{name}": tensor for name, tensor in build_backbone("resnet18").state_dict().items()}
    card = EncoderCard("resnet18", False, 16, "/photos", 1234, 500, "moco_v2_small", "")
    save_encoder(tmp_path / "run" / "encoder", state, card, SEEN)
    user_folders.set_current_encoder(tmp_path / "run" / "encoder")
    return tmp_path / "run" / "encoder"


def export(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command, run in this process: a new one would import torch anew."""
    with pytest.raises(SystemExit) as ended:
        main(["export", "encoder", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code, *capsys.readouterr()


def test_the_encoder_trained_last_is_exported_and_only_the_path_goes_to_stdout(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "e.safetensors"
    status, printed, told = export(capsys, "--format", "safetensors", "--out", out)
    assert (status, printed) == (0, f"{out}\n")
    fingerprint = load_encoder(trained, torch.device("cpu")).fingerprint
    assert f"[{fingerprint}]" in told
    assert load_encoder(out, torch.device("cpu")).fingerprint == fingerprint
    status, printed, told = export(capsys, out, "--format", "torchvision", "--out", tmp_path / "e.pth")
    assert (status, printed) == (0, f"{tmp_path / 'e.pth'}\n")
    assert "torchvision.models.resnet18()" in told


def test_a_file_that_is_there_is_a_usage_error_unless_force_is_given(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "e.pkl"
    out.write_bytes(b"precious")
    status, printed, told = export(capsys, "--format", "detectron2", "--out", out)
    assert (status, printed) == (2, "")
    assert "--force" in told
    assert out.read_bytes() == b"precious"
    status, printed, told = export(capsys, "--format", "detectron2", "--out", out, "--force")
    assert (status, printed) == (0, f"{out}\n")
    assert "MODEL.PIXEL_MEAN [127.5, 102.0, 76.5]" in told


def test_without_any_encoder_it_is_said_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    status, printed, told = export(capsys, "--format", "onnx", "--out", tmp_path / "e.onnx")
    assert (status, printed) == (1, "")
    assert "mocosearch train" in told
    assert not (tmp_path / "e.onnx").exists()
