"""Checkpoints of other projects: the right network is taken, and every tensor of it must fit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mocosearch.encoders import load_encoder
from mocosearch.encoders.checkpoint_formats import match_tensors, read_checkpoint
from mocosearch.errors import BadCheckpoint
from mocosearch.nets import build_backbone, build_head

CPU = torch.device("cpu")


def authors_state(head: str = "mlp") -> dict[str, Tensor]:
    """Names as the authors' main_moco.py saves them; the key encoder's values differ from the query encoder's."""
    torch.manual_seed(0)
    backbone, projection = build_backbone("resnet18").state_dict(), build_head(head, 512, 128).state_dict()
    state: dict[str, Tensor] = {}
    for encoder, shift in (("encoder_q", 0), ("encoder_k", 1)):
        state |= {f"module.{encoder}.{name}": tensor + shift for name, tensor in backbone.items()}
        state |= {f"module.{encoder}.fc.{name}": tensor + shift for name, tensor in projection.items()}
    return {**state, "module.queue": torch.randn(128, 16), "module.queue_ptr": torch.zeros(1, dtype=torch.long)}


def save(path: Path, state: dict[str, Tensor], **others: Any) -> Path:
    content = {"epoch": 200, "arch": "resnet18", "state_dict": state, "optimizer": {"state": {}, "param_groups": []}}
    torch.save({**content, **others}, path)
    return path


@pytest.mark.parametrize(
    ("head", "names"), [("linear", {"weight", "bias"}), ("mlp", {"0.weight", "0.bias", "2.weight", "2.bias"})]
)
def test_of_the_authors_file_the_query_encoder_is_taken_and_its_fc_is_the_head(
    tmp_path: Path, head: str, names: set[str]
) -> None:
    state = authors_state(head)
    read = read_checkpoint(save(tmp_path / "moco.pth.tar", state))
    assert read.backbone.keys() == build_backbone("resnet18").state_dict().keys()
    assert read.head.keys() == names
    assert torch.equal(read.backbone["conv1.weight"], state["module.encoder_q.conv1.weight"])
    assert (read.architecture, read.epochs, read.projection_dim) == ("resnet18", 200, 128)
    assert read.recipe == ("moco_v2" if head == "mlp" else "moco_v1")


def test_a_file_of_moco_on_one_gpu_is_read_alike(tmp_path: Path) -> None:
    state = {name.removeprefix("module."): tensor for name, tensor in authors_state().items()}
    read = read_checkpoint(save(tmp_path / "moco.pth.tar", state))
    assert torch.equal(read.backbone["conv1.weight"], state["encoder_q.conv1.weight"])
    assert (read.recipe, read.architecture, read.projection_dim) == ("moco_v2", "resnet18", 128)


def test_an_old_file_format_and_half_precision_are_read(tmp_path: Path) -> None:
    state = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in authors_state().items()}
    for name in [name for name in state if name.endswith("num_batches_tracked")]:
        del state[name]  # as torch before 0.4.1 wrote them
    content = {"epoch": 200, "arch": "resnet18", "state_dict": state}
    torch.save(content, tmp_path / "old.pth.tar", _use_new_zipfile_serialization=False)
    weight = load_encoder(tmp_path / "old.pth.tar", CPU).network.state_dict()["conv1.weight"]
    assert weight.dtype == torch.float32
    assert torch.equal(weight, state["module.encoder_q.conv1.weight"].float())


def test_every_tensor_that_does_not_fit_is_named(tmp_path: Path) -> None:
    state = authors_state()
    del state["module.encoder_q.layer1.0.bn1.running_var"]
    state["module.encoder_q.layer2.1.conv9.weight"] = torch.zeros(3)
    state["module.encoder_q.conv1.weight"] = torch.zeros(64, 3, 5, 5)
    with pytest.raises(BadCheckpoint) as caught:
        load_encoder(save(tmp_path / "odd.pth.tar", state), CPU)
    text = str(caught.value)
    assert "layer1.0.bn1.running_var is missing" in text
    assert "layer2.1.conv9.weight is unknown" in text
    assert "conv1.weight is (64, 3, 5, 5), not (64, 3, 7, 7)" in text
    assert "odd.pth.tar" in text
    assert "\n" not in text


def test_a_file_of_another_architecture_names_some_tensors_and_counts_the_others(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"layer1\.2\.conv1\.weight is missing.* and \d+ more"):
        load_encoder(save(tmp_path / "a.pth.tar", authors_state(), arch="resnet34"), CPU)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"state_dict": {"encoder_x.conv1.weight": torch.zeros(1)}}, "no known layout"),
        ({"state_dict": {"module.encoder_q.conv1.weight": "no tensor"}}, "no known layout"),
        ({"state_dict": [1, 2]}, "no known layout"),
        ({}, "no known layout"),
        ([1, 2], "no known layout"),
        (torch.zeros(3), "no known layout"),
        ({"state_dict": {"module.encoder_q.conv1.weight": torch.zeros(1)}}, "does not fit"),
        ({"state_dict": {"module.encoder_q.conv1.weight": torch.zeros(1)}, "arch": "vgg16"}, "does not fit"),
        ({"module.base_encoder.blocks.0.norm1.weight": torch.zeros(1)}, "timm:NAME=FILE"),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(BadCheckpoint, match=message) as caught:
        load_encoder(tmp_path / "x.pth", CPU)
    assert "\n" not in str(caught.value)


def test_files_that_are_cut_off_or_no_checkpoint_are_refused_in_one_line(tmp_path: Path) -> None:
    whole = save(tmp_path / "whole.pth", {"module.encoder_q.conv1.weight": torch.zeros(9)}).read_bytes()
    file = tmp_path / "file.pth"
    for content in (b"", b"text", b"\x80", whole[:-1], whole[:50], whole[: len(whole) // 2], b"PK\x03\x04" + bytes(90)):
        file.write_bytes(content)
        with pytest.raises(BadCheckpoint) as caught:
            read_checkpoint(file)
        assert "file.pth" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.zeros(2, 2, dtype=torch.complex64), "complex64"),
        (torch.zeros(2, 2, dtype=torch.bool), "bool"),
        (torch.zeros(2, 2, dtype=torch.int64), "int64"),
        (torch.zeros(2, 2).to_sparse(), "sparse_coo float32"),
        (torch.zeros(2, 2, device="meta"), "float32 of no data"),
    ],
)
def test_a_tensor_of_another_kind_is_named_and_not_converted(tensor: Tensor, kind: str) -> None:
    with pytest.raises(BadCheckpoint, match=f"file does not fit.*: w holds {kind};"):
        match_tensors({"w": torch.zeros(2, 2)}, {"w": tensor}, "a file")


def test_a_tensor_of_as_many_numbers_in_another_shape_does_not_fit() -> None:
    with pytest.raises(BadCheckpoint, match=r"w is \(4, 1\), not \(2, 2\)"):
        match_tensors({"w": torch.zeros(2, 2)}, {"w": torch.zeros(4, 1)}, "a file")


def test_a_match_keeps_values_and_takes_the_expected_types() -> None:
    expected = {"w": torch.zeros(2), "bn.num_batches_tracked": torch.zeros((), dtype=torch.int64)}
    matched = match_tensors(expected, {"w": torch.tensor([1.0, 2.0], dtype=torch.float64)}, "a file")
    assert matched["w"].dtype == torch.float32
    assert matched["w"].tolist() == [1.0, 2.0]
    assert matched["bn.num_batches_tracked"].item() == 0
