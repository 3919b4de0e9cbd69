"""Parity with the authors' implementation: every number of moco_parity.json in float64, through the code that trains."""

import json
from math import prod, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mocosearch.methods import MoCo
from mocosearch.methods.dictionaries import Queue
from mocosearch.nets import ProjectedEncoder, build_backbone, build_head
from mocosearch.training.trainer import training_step

REFERENCE = json.loads((Path(__file__).parent / "moco_parity.json").read_text())
STEPS, BATCH, SIZE, DIM = 6, 16, 64, 16
TIGHT = {"rel": 1e-9, "abs": 1e-12}


def fill(shape: tuple[int, ...], seed: int, scale: float) -> Tensor:
    j = np.arange(1, prod(shape) + 1, dtype=np.float64)
    u = np.sin(12.9898 * j + 78.233 * seed) * 43758.5453
    return torch.from_numpy(scale * sqrt(12) * (u - np.floor(u) - 0.5)).reshape(shape)


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


def l2_norm(module: torch.nn.Module) -> float:
    return float(torch.cat([p.detach().flatten() for p in module.parameters()]).norm())


@pytest.mark.parametrize("case", ["v1_1rank", "v2_1rank", "v1_2rank", "v2_2rank"])
def test_parity_with_the_authors_implementation(case: str) -> None:
    version, ranks = case[:2], int(case[3])
    queue = Queue(64, DIM).double()
    queue.keys.copy_(torch.nn.functional.normalize(fill((DIM, 64), 100, 1.0), dim=0).T)
    method = MoCo(
        reference_encoder(version),
        queue,
        momentum=0.9,
        temperature=0.07 if version == "v1" else 0.2,
        batch_norm_groups=ranks,
        permutation=lambda step, batch: torch.arange(batch).flip(0),
    )
    optimizer = torch.optim.SGD(method.query_encoder.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    method.train()
    losses, key_norms = [], []
    for step in range(STEPS):
        key_norms.append(l2_norm(method.key_encoder))  # before the update that follows this step, as in the reference
        views = [fill((BATCH, 3, SIZE, SIZE), base + step, 1.0) for base in (1000, 2000)]
        loss, _ = training_step(method, optimizer, views, torch.arange(BATCH))
        losses.append(float(loss))

    expected = REFERENCE["cases"][case]
    assert len(expected) == ranks
    mean_losses = np.mean([rank["losses"] for rank in expected], axis=0)
    assert losses == pytest.approx(list(mean_losses), **TIGHT)
    for rank in expected:
        keys = queue.keys.T  # the reference keeps one key a column
        np.testing.assert_allclose(keys[:4, :4], rank["queue_top_left_4x4"], rtol=1e-9)
        assert float(keys.sum()) == pytest.approx(rank["queue_sum"], **TIGHT)
        assert int(queue.pointer) == rank["queue_pointer"]
        assert l2_norm(method.query_encoder) == pytest.approx(rank["query_encoder_parameter_l2_norm"], **TIGHT)
        assert key_norms[-1] == pytest.approx(rank["key_encoder_parameter_l2_norm"], **TIGHT)
        last = method.query_encoder.head if version == "v1" else method.query_encoder.head[2]
        np.testing.assert_allclose(
            last.weight.detach().flatten()[:4], rank["projection_last_weight_first_4"], rtol=1e-9
        )
        if "key_encoder_bn1_running_mean_first_4" in rank:
            np.testing.assert_allclose(
                method.key_encoder.backbone.bn1.running_mean[:4],
                rank["key_encoder_bn1_running_mean_first_4"],
                rtol=1e-9,
            )
