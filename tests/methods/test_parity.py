"""Parity with the authors' implementation: every number of moco_parity.json, in float64, by the code that trains."""

import json
from math import prod, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mocosearch.methods import MoCo, moco
from mocosearch.methods.dictionaries import Queue
from mocosearch.methods.info_nce import info_nce
from mocosearch.nets import ProjectedEncoder, build_backbone, build_head
from mocosearch.training.trainer import Trainee

REFERENCE = json.loads((Path(__file__).parent / "moco_parity.json").read_text())
STEPS, BATCH, SIZE, DIM = 6, 16, 64, 16
TIGHT = {
    "rel": 1e-9,
    "abs": 1e-12,
}  # abs: single numbers near zero carry the rounding of their much larger peers


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
def test_parity_with_the_authors_implementation(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version, ranks = case[:2], int(case[3])
    losses: list[list[float]] = []  # (STEPS, ranks)

    def watched_info_nce(*arguments: object) -> tuple[Tensor, Tensor]:
        loss, logits = info_nce(*arguments)
        per_query = -logits.detach().log_softmax(dim=1)[:, 0]
        losses.append(per_query.view(ranks, -1).mean(dim=1).tolist())
        assert float(loss) == pytest.approx(float(per_query.mean()), **TIGHT)
        return loss, logits

    monkeypatch.setattr(moco, "info_nce", watched_info_nce)
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
    key_norms = []
    for step in range(STEPS):
        key_norms.append(l2_norm(method.key_encoder))  # before the update that follows this step, as in the reference
        views = [fill((BATCH, 3, SIZE, SIZE), base + step, 1.0) for base in (1000, 2000)]
        Trainee(method, optimizer, autocast=None).step(views, torch.arange(BATCH))

    expected = REFERENCE["cases"][case]
    assert len(expected) == ranks
    for number, rank in enumerate(expected):
        assert [step[number] for step in losses] == pytest.approx(rank["losses"], **TIGHT)
        keys = queue.keys.T  # the reference keeps one key a column
        assert keys[:4, :4].numpy() == pytest.approx(np.array(rank["queue_top_left_4x4"]), **TIGHT)
        assert float(keys.sum()) == pytest.approx(rank["queue_sum"], **TIGHT)
        assert int(queue.pointer) == rank["queue_pointer"]
        assert l2_norm(method.query_encoder) == pytest.approx(rank["query_encoder_parameter_l2_norm"], **TIGHT)
        assert key_norms[-1] == pytest.approx(rank["key_encoder_parameter_l2_norm"], **TIGHT)
        last = method.query_encoder.head if version == "v1" else method.query_encoder.head[2]
        weights = last.weight.detach().flatten()[:4].numpy()
        assert weights == pytest.approx(np.array(rank["projection_last_weight_first_4"]), **TIGHT)
        if "key_encoder_bn1_running_mean_first_4" in rank:
            running_mean = method.key_encoder.backbone.bn1.running_mean[:4].numpy()
            assert running_mean == pytest.approx(np.array(rank["key_encoder_bn1_running_mean_first_4"]), **TIGHT)
