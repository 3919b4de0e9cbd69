"""The setup of moco_parity.json: networks, queue and inputs made by its closed formula.

bench/gpu_check.py runs it too, where there is no pytest.
"""

import json
from math import prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from mocosearch.methods import MoCo, moco
from mocosearch.methods.dictionaries import Queue
from mocosearch.methods.info_nce import info_nce
from mocosearch.nets import ProjectedEncoder, build_backbone, build_head

if TYPE_CHECKING:
    import pytest

CASES: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "moco_parity.json").read_text())["cases"]
STEPS, BATCH, SIZE, DIM = 6, 16, 64, 16
# atol: single numbers near zero carry the rounding of their much larger peers
TIGHT = {"rtol": 1e-9, "atol": 1e-12}


def fill(shape: tuple[int, ...], seed: int, scale: float) -> Tensor:
    j = np.arange(1, prod(shape) + 1, dtype=np.float64)
    u = np.sin(12.9898 * j + 78.233 * seed) * 43758.5453
    return torch.from_numpy(scale * sqrt(12) * (u - np.floor(u) - 0.5)).reshape(shape)


def views(step: int) -> list[Tensor]:
    return [fill((BATCH, 3, SIZE, SIZE), base + step, 1.0) for base in (1000, 2000)]


def reference_encoder(version: str) -> ProjectedEncoder:
    backbone = build_backbone("resnet18")
    encoder = ProjectedEncoder(backbone, build_head("linear" if version == "v1" else "mlp", 512, DIM)).double()
    with torch.no_grad():
        for i, (name, parameter) in enumerate(encoder.named_parameters()):
            if parameter.dim() >= 2:
                parameter.copy_(fill(tuple(parameter.shape), i, sqrt(2 / parameter[0].numel())))
            else:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    return encoder


def reference_method(version: str, *, groups: int) -> MoCo:
    queue = Queue(64, DIM).double()
    queue.keys.copy_(torch.nn.functional.normalize(fill((DIM, 64), 100, 1.0), dim=0).T)
    return MoCo(
        reference_encoder(version),
        queue,
        momentum=0.9,
        temperature=0.07 if version == "v1" else 0.2,
        batch_norm_groups=groups,
        permutation=lambda step, batch: torch.arange(batch).flip(0),
    )


def reference_optimizer(method: MoCo) -> torch.optim.Optimizer:
    return torch.optim.SGD(method.query_encoder.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)


class LossPerQuery:
    """Stands in for info_nce and notes the loss of every query; the loss it returns is that of info_nce."""

    def __init__(self, monkeypatch: "pytest.MonkeyPatch") -> None:
        self.steps: list[Tensor] = []
        monkeypatch.setattr(moco, "info_nce", self)

    def __call__(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        loss, logits = info_nce(*arguments)
        self.steps.append(-logits.detach().log_softmax(dim=1)[:, 0])
        assert_allclose(loss.item(), self.steps[-1].mean().item(), **TIGHT)
        return loss, logits


def l2_norm(module: torch.nn.Module) -> float:
    return torch.cat([p.detach().flatten() for p in module.parameters()]).norm().item()


def check(method: MoCo, version: str, key_norm: float, expected: dict[str, Any]) -> None:
    """Compare a method after STEPS steps; `key_norm` is that of the key encoder before the last momentum update."""
    keys = method.dictionary.keys.T  # the reference keeps one key a column
    assert_allclose(keys[:4, :4].numpy(), expected["queue_top_left_4x4"], **TIGHT)
    assert_allclose(keys.sum().item(), expected["queue_sum"], **TIGHT)
    assert method.dictionary.pointer.item() == expected["queue_pointer"]
    assert_allclose(l2_norm(method.query_encoder), expected["query_encoder_parameter_l2_norm"], **TIGHT)
    assert_allclose(key_norm, expected["key_encoder_parameter_l2_norm"], **TIGHT)
    last = method.query_encoder.head if version == "v1" else method.query_encoder.head[2]
    assert_allclose(last.weight.detach().flatten()[:4].numpy(), expected["projection_last_weight_first_4"], **TIGHT)
    if "key_encoder_bn1_running_mean_first_4" in expected:
        running_mean = method.key_encoder.backbone.bn1.running_mean[:4].numpy()
        assert_allclose(running_mean, expected["key_encoder_bn1_running_mean_first_4"], **TIGHT)
