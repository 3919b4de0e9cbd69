"""Exported encoders: other programs compute our features from them, and what does not fit a format is refused."""

import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors
import timm
import torch
import torchvision
from torch import nn

from mocosearch.encoders import Encoder, EncoderCard, Preprocessing, load_encoder
from mocosearch.encoders.export import FORMATS, detectron2_name, export_encoder
from mocosearch.errors import BadCheckpoint, CannotExport, MissingExtra
from mocosearch.nets import build_backbone
from mocosearch_index.errors import NotWritable

CPU = torch.device("cpu")
SEEN = Preprocessing(resize=72, crop=64, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))


def encoder(architecture: str = "resnet18", *, small_stem: bool = False, stem_padding: int = 1) -> Encoder:
    torch.manual_seed(0)
    network = build_backbone(architecture, small_stem=small_stem, stem_padding=stem_padding)
    card = EncoderCard(
        architecture, small_stem, 128, "/photos", 1234, 500, "moco_v2_small", "", stem_padding=stem_padding
    )
    return Encoder(network, card, SEEN, CPU)


def timm_encoder(folder: Path) -> Encoder:
    torch.manual_seed(0)
    torch.save(timm.create_model("test_vit").state_dict(), folder / "vit.pth")
    return load_encoder(f"timm:test_vit={folder / 'vit.pth'}", CPU)


@pytest.mark.parametrize("small_stem", [False, True])
def test_a_torchvision_file_loads_strictly_into_torchvision_and_comes_back_here(
    small_stem: bool, tmp_path: Path
) -> None:
    ours = encoder(small_stem=small_stem)
    told = export_encoder(ours, "torchvision", tmp_path / "new" / "e.pth")
    theirs = torchvision.models.resnet18()
    theirs.fc = nn.Identity()
    if small_stem:
        assert "conv1 = Conv2d(3, 64, 3, padding=1, bias=False), maxpool = Identity()" in told
        theirs.conv1, theirs.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    theirs.load_state_dict(torch.load(tmp_path / "new" / "e.pth", weights_only=True))
    pixels = torch.randn(2, 3, 64, 64)
    again = load_encoder(tmp_path / "new" / "e.pth", CPU)
    assert again.card.small_stem == small_stem
    with torch.inference_mode():
        features = ours.network(pixels)
        assert torch.allclose(theirs.eval()(pixels), features, rtol=1e-4, atol=1e-5)
        assert torch.allclose(again.network(pixels), features, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["small stem", "solo-learn's stem", "timm"])
def test_safetensors_lose_nothing(kind: str, tmp_path: Path) -> None:
    paddings = {"small stem": 1, "solo-learn's stem": 2}
    ours = timm_encoder(tmp_path) if kind == "timm" else encoder(small_stem=True, stem_padding=paddings[kind])
    export_encoder(ours, "safetensors", tmp_path / "e.safetensors")
    again = load_encoder(tmp_path / "e.safetensors", CPU)
    assert (again.fingerprint, again.card, again.preprocessing) == (ours.fingerprint, ours.card, ours.preprocessing)
    with safetensors.safe_open(tmp_path / "e.safetensors", "pt") as file:
        assert set(file.keys()) == set(ours.network.state_dict())
        assert json.loads(file.metadata()["mocosearch"])["fingerprint"] == ours.fingerprint


@pytest.mark.parametrize("kind", ["resnet", "timm"])
def test_onnx_goes_from_pixels_to_the_vectors_that_are_searched(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ours = encoder(small_stem=True) if kind == "resnet" else timm_encoder(tmp_path)
    told = export_encoder(ours, "onnx", tmp_path / "e.onnx")
    assert capfd.readouterr().out == ""
    assert f"opset 20; takes uint8 (batch, 3, {ours.preprocessing.crop}, {ours.preprocessing.crop})" in told
    session = onnxruntime.InferenceSession(tmp_path / "e.onnx", providers=["CPUExecutionProvider"])
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (ours.preprocessing.mean, ours.preprocessing.std))
    assert session.get_inputs()[0].shape[2] == ours.preprocessing.crop
    for batch in (1, 3):
        pixels = torch.randint(0, 256, (batch, 3, ours.preprocessing.crop, ours.preprocessing.crop), dtype=torch.uint8)
        with torch.inference_mode():
            expected = nn.functional.normalize(ours.network((pixels / 255 - mean) / std), dim=1).numpy()
        (vectors,) = session.run(None, {"images": pixels.numpy()})
        assert vectors.dtype == np.float32
        assert np.abs(vectors - expected).max() < 1e-4
    model = onnx.load(tmp_path / "e.onnx")
    assert [opset.version for opset in model.opset_import if opset.domain == ""] == [20]
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert facts["fingerprint"] == ours.fingerprint
    assert (facts["resize"], facts["crop"]) == (str(ours.preprocessing.resize), str(ours.preprocessing.crop))
    assert [file.name for file in tmp_path.iterdir() if "onnx" in file.name] == ["e.onnx"]  # weights inside


class Doubled(nn.Module):
    """Another network each time that it is traced: what an exporter that goes wrong would write."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift, self.feature_dim = shift, 3

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        sums = images.mean(dim=(2, 3))
        return sums + self.shift if torch.compiler.is_exporting() else sums


@pytest.mark.parametrize("shift", [1.0, float("nan")])
def test_an_onnx_file_that_gives_other_vectors_is_not_kept(shift: float, tmp_path: Path) -> None:
    wrong = Encoder(Doubled(shift), EncoderCard("resnet18", False, None, "/photos", 1, 1, "x", ""), SEEN, CPU)
    (tmp_path / "e.onnx").write_bytes(b"an older one")
    with pytest.raises(CannotExport, match="gives other vectors than torch") as caught:
        export_encoder(wrong, "onnx", tmp_path / "e.onnx", replace=True)
    assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["e.onnx"]
    assert (tmp_path / "e.onnx").read_bytes() == b"an older one"


# From detectron2's own ResNet-50: stem, the first block of res2 with its shortcut, the last of res5.
DETECTRON2 = {
    "conv1.weight": "stem.conv1.weight",
    "bn1.weight": "stem.conv1.norm.weight",
    "bn1.running_var": "stem.conv1.norm.running_var",
    "layer1.0.conv1.weight": "res2.0.conv1.weight",
    "layer1.0.bn1.bias": "res2.0.conv1.norm.bias",
    "layer1.0.conv2.weight": "res2.0.conv2.weight",
    "layer1.0.bn2.running_mean": "res2.0.conv2.norm.running_mean",
    "layer1.0.conv3.weight": "res2.0.conv3.weight",
    "layer1.0.bn3.weight": "res2.0.conv3.norm.weight",
    "layer1.0.downsample.0.weight": "res2.0.shortcut.weight",
    "layer1.0.downsample.1.weight": "res2.0.shortcut.norm.weight",
    "layer1.0.downsample.1.running_var": "res2.0.shortcut.norm.running_var",
    "layer4.2.conv1.weight": "res5.2.conv1.weight",
    "layer4.2.bn3.bias": "res5.2.conv3.norm.bias",
}


def test_detectron2_gets_the_names_and_arrays_that_it_expects(tmp_path: Path) -> None:
    ours = encoder("resnet50")
    told = export_encoder(ours, "detectron2", tmp_path / "r50.pkl")
    content = pickle.loads((tmp_path / "r50.pkl").read_bytes())
    assert content["matching_heuristics"] is True
    assert content["__author__"] == "mocosearch"
    state = ours.network.state_dict()
    for name, theirs in DETECTRON2.items():
        assert detectron2_name(name) == theirs
        assert np.array_equal(content["model"][theirs], state[name].numpy())
    assert len(content["model"]) == 53 * 5  # convolutions, each with four tensors of batch norm
    assert {name.partition(".")[0] for name in content["model"]} == {"stem", "res2", "res3", "res4", "res5"}
    assert "MODEL.PIXEL_MEAN [127.5, 102.0, 76.5]" in told
    assert "STRIDE_IN_1X1 False" in told


def test_what_a_format_cannot_hold_is_refused_in_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    vit = timm_encoder(tmp_path)
    refused = [
        (vit, "torchvision", "timm:test_vit is no torchvision ResNet"),
        (vit, "detectron2", "timm:test_vit is no torchvision ResNet"),
        (encoder(small_stem=True), "detectron2", "no ResNet with a 3x3 first convolution"),
        (encoder(small_stem=True, stem_padding=2), "torchvision", "choose --format safetensors"),
    ]
    for ours, format_name, message in refused:
        with pytest.raises(CannotExport, match=message) as caught:
            export_encoder(ours, format_name, tmp_path / "out" / "file")
        assert "\n" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_is_there_stays_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    ours, out = encoder(), tmp_path / "e.pth"
    out.write_bytes(b"precious")
    with pytest.raises(CannotExport, match="--force"):
        export_encoder(ours, "torchvision", out)
    assert out.read_bytes() == b"precious"
    export_encoder(ours, "torchvision", out, replace=True)
    assert load_encoder(out, CPU).dim == 512
    with pytest.raises(CannotExport, match="is a folder"):
        export_encoder(ours, "torchvision", tmp_path, replace=True)


@pytest.mark.parametrize("format_name", FORMATS)
def test_weights_that_are_no_good_are_refused_for_every_format(format_name: str, tmp_path: Path) -> None:
    ours = encoder()
    ours.network.conv1.weight[0, 0, 0, 0] = float("nan")  # type: ignore[index, union-attr]
    with pytest.raises(BadCheckpoint, match=r"not finite: .*train again, or name another encoder"):
        export_encoder(ours, format_name, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CannotExport, match="pipe' is no file"):
        export_encoder(encoder(), "torchvision", tmp_path / "pipe", replace=True)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    "out", ["file/e.pth", "file/deeper/e.pth", f"{'x' * 240}", f"{'x' * 300}", "x" * 5000, "/proc/e"]
)
def test_where_no_file_can_be_it_is_said_in_one_line(out: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotWritable) as caught:
        export_encoder(encoder(), "torchvision", tmp_path / out)
    assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_without_the_packages_of_onnx_the_one_to_install_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=rf"package {package}: .*pip install 'mocosearch\[onnx\]'"):
        export_encoder(encoder(), "onnx", tmp_path / "e.onnx")
    assert list(tmp_path.iterdir()) == []
