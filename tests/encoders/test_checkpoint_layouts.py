"""Files of other projects, laid out as those projects save them, give the features of the network that they hold."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import timm
import torch
import torchvision
from torch import Tensor, nn

from mocosearch.encoders import load_encoder
from mocosearch.encoders.checkpoint_formats import TensorFile, recognize
from mocosearch.errors import BadCheckpoint
from mocosearch.nets import backbone_names

CPU = torch.device("cpu")
State = dict[str, Tensor]


def resnet(*, stem_padding: int | None = None) -> nn.Module:
    """torchvision's ResNet-18 without classifier; with a 3x3 first convolution and no max-pooling if padded so."""
    torch.manual_seed(0)
    network: nn.Module = torchvision.models.resnet18()
    network.fc = nn.Identity()
    if stem_padding is not None:
        network.conv1 = nn.Conv2d(3, 64, 3, padding=stem_padding, bias=False)
        network.maxpool = nn.Identity()
    return network.eval()


def prefixed(prefix: str, state: Mapping[str, Tensor], shift: float = 0) -> State:
    return {f"{prefix}{name}": tensor + shift for name, tensor in state.items()}


def moco_v3() -> tuple[nn.Module, Any]:
    """moco-v3's main_moco.py with a ResNet: a head without biases under fc, a momentum encoder and a predictor."""
    network = resnet()
    head = nn.Sequential(
        *(nn.Linear(512, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU()),
        *(nn.Linear(64, 256, bias=False), nn.BatchNorm1d(256, affine=False)),
    )
    encoder = network.state_dict() | prefixed("fc.", head.state_dict())
    state = prefixed("module.base_encoder.", encoder) | prefixed("module.momentum_encoder.", encoder, shift=1)
    state |= {"module.predictor.0.weight": torch.zeros(64, 256)}
    return network, {"epoch": 300, "arch": "resnet18", "state_dict": state, "optimizer": {}, "scaler": {}}


def moco_v3_linear() -> tuple[nn.Module, Any]:
    """moco-v3's main_lincls.py: a torchvision ResNet in DistributedDataParallel."""
    network = resnet()
    state = network.state_dict() | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    content = {"epoch": 90, "arch": "resnet18", "best_acc1": torch.tensor(70.0), "optimizer": {}}
    return network, {**content, "state_dict": prefixed("module.", state)}


def solo_learn(prefix: str = "backbone.", stem_padding: int | None = None) -> tuple[nn.Module, Any]:
    """solo-learn's MoCo v2+ as Lightning saves it; for CIFAR it pads a 3x3 first convolution by 2."""
    network = resnet(stem_padding=stem_padding)
    state = prefixed(prefix, network.state_dict()) | prefixed(f"momentum_{prefix}", network.state_dict(), shift=1)
    state |= {"classifier.weight": torch.zeros(10, 512), "classifier.bias": torch.zeros(10)}
    state |= {"projector.0.weight": torch.zeros(64, 512), "queue": torch.zeros(2, 256, 8)}
    return network, {"epoch": 399, "global_step": 5, "pytorch-lightning_version": "2.1.2", "state_dict": state}


def lightly_content(backbone: nn.Module) -> Any:
    state = prefixed("backbone.", backbone.state_dict()) | prefixed("backbone_momentum.", backbone.state_dict(), 1)
    state |= {"projection_head.layers.0.weight": torch.zeros(512, 512)}
    return {"epoch": 10, "pytorch-lightning_version": "2.1.2", "loops": {}, "state_dict": state}


def lightly_children(stem_padding: int | None = None) -> tuple[nn.Module, Any]:
    """lightly's examples: the children of a torchvision ResNet but the last, in an nn.Sequential."""
    backbone = nn.Sequential(*list(resnet(stem_padding=stem_padding).children())[:-1])
    return nn.Sequential(backbone, nn.Flatten()).eval(), lightly_content(backbone)


def lightly_named() -> tuple[nn.Module, Any]:
    network = resnet()
    return network, lightly_content(network)


def lightly_own(*, cut: bool) -> tuple[nn.Module, Any]:
    """lightly's ResNetGenerator, which says shortcut and linear, whole or its children but the last with a pooling."""
    network = resnet(stem_padding=1)
    stages = [network.layer1, network.layer2, network.layer3, network.layer4]
    backbone = nn.Sequential(network.conv1, network.bn1, *stages, nn.AdaptiveAvgPool2d(1)) if cut else network
    content = lightly_content(backbone)
    own = {name.replace("downsample", "shortcut"): tensor for name, tensor in content["state_dict"].items()}
    if not cut:
        own |= {"backbone.linear.weight": torch.zeros(10, 512), "backbone.linear.bias": torch.zeros(10)}
    return nn.Sequential(backbone, nn.Flatten()).eval(), {**content, "state_dict": own}


def timm_resnet() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    network = timm.create_model("resnet18").eval()
    content = {
        "epoch": 3,
        "arch": "tv_resnet18",
        "args": argparse.Namespace(lr=0.1),
        "state_dict": network.state_dict(),
    }
    network.reset_classifier(0)
    return network, content


def torchvision_training() -> tuple[nn.Module, Any]:
    """torchvision's references/classification/train.py."""
    network = resnet()
    return network, {"model": network.state_dict(), "epoch": 89, "args": argparse.Namespace(workers=16)}


def plain() -> tuple[nn.Module, Any]:
    network = resnet()
    return network, network.state_dict() | {"fc.weight": torch.zeros(7, 512), "fc.bias": torch.zeros(7)}


FILES: dict[str, tuple[Callable[[], tuple[nn.Module, Any]], str]] = {
    "MoCo v3": (moco_v3, "MoCo v3 of its authors, 300 epochs"),
    "MoCo v3 linear": (moco_v3_linear, "several GPUs, 90 epochs"),
    "solo-learn": (solo_learn, "solo-learn, 399 epochs"),
    "solo-learn for CIFAR": (lambda: solo_learn(stem_padding=2), "solo-learn, 399 epochs"),
    "solo-learn of 2021": (lambda: solo_learn("encoder."), "solo-learn of 2021"),
    "lightly": (lightly_children, "lightly, 10 epochs"),
    "lightly with a small stem": (lambda: lightly_children(1), "lightly, 10 epochs"),
    "lightly with names": (lightly_named, "lightly, 10 epochs"),
    "lightly's own": (lambda: lightly_own(cut=False), "lightly, 10 epochs"),
    "lightly's own as its examples cut it": (lambda: lightly_own(cut=True), "lightly, 10 epochs"),
    "timm": (timm_resnet, "torchvision or timm"),
    "torchvision's training": (torchvision_training, "torchvision or timm ResNet, 89 epochs"),
    "a state dict": (plain, "torchvision or timm"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_gives_the_features_of_the_network_that_it_holds(kind: str, tmp_path: Path) -> None:
    make, described = FILES[kind]
    network, content = make()
    torch.save(content, tmp_path / "file.ckpt")
    encoder = load_encoder(tmp_path / "file.ckpt", CPU)
    assert described in encoder.card.description
    assert f"unknown photos, weights of {tmp_path / 'file.ckpt'}" in encoder.card.description
    assert encoder.card.architecture == "resnet18"
    pixels = torch.randn(2, 3, 40, 40, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected, features = network(pixels), encoder.network(pixels)
    assert torch.allclose(features, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["solo-learn for CIFAR", "lightly's own as its examples cut it"])
def test_an_encoder_with_the_stem_of_another_project_keeps_it(kind: str, tmp_path: Path) -> None:
    network, content = FILES[kind][0]()
    torch.save(content, tmp_path / "file.ckpt")
    encoder = load_encoder(tmp_path / "file.ckpt", CPU)
    encoder.save(tmp_path / "kept")
    again = load_encoder(tmp_path / "kept", CPU)
    assert (again.card, again.fingerprint) == (encoder.card, encoder.fingerprint)
    pixels = torch.randn(1, 3, 40, 40)
    with torch.inference_mode():
        assert torch.allclose(again.network(pixels), network(pixels), rtol=1e-4, atol=1e-5)


def test_of_moco_v3_the_length_of_the_projection_is_told(tmp_path: Path) -> None:
    torch.save(moco_v3()[1], tmp_path / "r.pth.tar")
    assert load_encoder(tmp_path / "r.pth.tar", CPU).card.feature_dim == 256


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.bin"])
def test_safetensors_are_told_by_their_content(tmp_path: Path, name: str) -> None:
    network, content = lightly_named()
    tensors = {name: tensor.contiguous() for name, tensor in content["state_dict"].items()}
    (tmp_path / name).write_bytes(safetensors.torch.save(tensors))
    loaded = load_encoder(tmp_path / name, CPU).network.state_dict()
    assert torch.equal(loaded["conv1.weight"], network.state_dict()["conv1.weight"])


def test_cut_off_safetensors_are_refused_in_one_line(tmp_path: Path) -> None:
    whole = safetensors.torch.save({"conv1.weight": torch.zeros(64, 3, 7, 7)})
    (tmp_path / "cut.safetensors").write_bytes(whole[:-9])
    with pytest.raises(BadCheckpoint, match=r"cut\.safetensors' cannot be read") as caught:
        load_encoder(tmp_path / "cut.safetensors", CPU)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("architecture", backbone_names())
def test_every_torchvision_resnet_is_told_from_its_shapes(architecture: str) -> None:
    with torch.device("meta"):
        network = torchvision.models.get_model(architecture)
    assert recognize(TensorFile(network.state_dict()), "a file").architecture == architecture


def test_a_timm_network_that_torchvision_has_not_is_refused_tensor_by_tensor(tmp_path: Path) -> None:
    torch.save(timm.create_model("resnet18d").state_dict(), tmp_path / "t.pth")
    with pytest.raises(BadCheckpoint, match=r"conv1\.weight is missing"):
        load_encoder(tmp_path / "t.pth", CPU)
    assert load_encoder(f"timm:resnet18d={tmp_path / 't.pth'}", CPU).dim == 512


def test_a_checkpoint_with_objects_of_its_training_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """As Lightning saves hyper-parameters that are no plain values."""
    content = {**solo_learn()[1], "hyper_parameters": Path("data")}
    torch.save(content, tmp_path / "solo.ckpt")
    with pytest.raises(BadCheckpoint, match="save only its state_dict") as caught:
        load_encoder(tmp_path / "solo.ckpt", CPU)
    assert "\n" not in str(caught.value)


def test_a_missing_tensor_of_lightly_is_named_as_torchvision_names_it(tmp_path: Path) -> None:
    content = lightly_children()[1]
    del content["state_dict"]["backbone.4.1.bn2.running_var"]
    torch.save(content, tmp_path / "l.ckpt")
    with pytest.raises(BadCheckpoint, match=r"layer1\.1\.bn2\.running_var is missing"):
        load_encoder(tmp_path / "l.ckpt", CPU)
