"""Parity with the authors' implementation: every number of moco_parity.json, in float64, by the code that trains."""

import pytest
import torch
from numpy.testing import assert_allclose

from mocosearch.training.trainer import Trainee
from tests.methods.reference import (
    BATCH,
    CASES,
    STEPS,
    TIGHT,
    LossPerQuery,
    check,
    l2_norm,
    reference_method,
    reference_optimizer,
    views,
)


@pytest.mark.parametrize("case", list(CASES))
def test_parity_with_the_authors_implementation(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks are two batch-norm groups of one process here; tests/distributed has them as processes."""
    version, ranks, expected = case[:2], int(case[3]), CASES[case]
    assert len(expected) == ranks
    method = reference_method(version, groups=ranks)
    trainee = Trainee(method, reference_optimizer(method), autocast=None)
    losses = LossPerQuery(monkeypatch)
    for step in range(STEPS):
        key_norm = l2_norm(method.key_encoder)
        trainee.step(views(step), torch.arange(BATCH))
    for number, rank in enumerate(expected):
        own = [step.view(ranks, -1)[number].mean().item() for step in losses.steps]
        assert_allclose(own, rank["losses"], **TIGHT)
        check(method, version, key_norm, rank)
