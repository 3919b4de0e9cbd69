"""The dictionaries that MoCo is compared with: in-batch (end-to-end) and the memory bank."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mocosearch.distributed import seeded_permutation
from mocosearch.methods import EndToEnd, InstanceDiscrimination
from mocosearch.methods.dictionaries import InBatch, MemoryBank
from mocosearch.methods.info_nce import info_nce
from mocosearch.nets import ProjectedEncoder, unit_norm
from mocosearch.training.trainer import Trainee

DIM, BATCH, IMAGES = 4, 6, 20


def tiny_encoder() -> ProjectedEncoder:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return ProjectedEncoder(backbone, nn.Linear(6, DIM))


def end_to_end(*, shared: bool, groups: int = 1) -> EndToEnd:
    options = {"temperature": 0.2, "permutation": seeded_permutation(0), "batch_norm_groups": groups}
    return EndToEnd(tiny_encoder(), shared_weights=shared, **options).train()


def images(seed: int = 0) -> torch.Tensor:
    return torch.randn(BATCH, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


@given(batch=st.integers(2, 9), dim=st.integers(1, 4))
def test_in_batch_negatives_are_all_keys_but_ones_own(batch: int, dim: int) -> None:
    keys = torch.randn(batch, dim)
    positives, negatives = InBatch().look_up(keys, torch.arange(batch))
    assert torch.equal(positives, keys)
    assert negatives.shape == (batch, batch - 1, dim)
    for i in range(batch):
        assert torch.equal(negatives[i], keys[[j for j in range(batch) if j != i]])


def test_the_in_batch_loss_is_cross_entropy_over_the_similarity_matrix() -> None:
    q, k = unit_norm(torch.randn(BATCH, DIM)), unit_norm(torch.randn(BATCH, DIM))
    loss, _ = info_nce(q, *InBatch().look_up(k, torch.arange(BATCH)), 0.2)
    torch.testing.assert_close(loss, nn.functional.cross_entropy(q @ k.T / 0.2, torch.arange(BATCH)))


@pytest.mark.parametrize("shared", [True, False])
def test_end_to_end_gradients_reach_queries_and_keys(shared: bool) -> None:
    method = end_to_end(shared=shared)
    assert (method.key_encoder is method.query_encoder) == shared
    loss, metrics = method([images(), images(1)], torch.arange(BATCH))
    loss.backward()
    for encoder in (method.query_encoder, method.key_encoder):
        assert float(encoder.head.weight.grad.abs().sum()) > 0
    assert set(metrics) == {"accuracy"}
    if shared:  # the gradient is the sum of both roles: of a function of one set of weights
        one = end_to_end(shared=False)
        one([images(), images(1)], torch.arange(BATCH))[0].backward()
        both = one.query_encoder.head.weight.grad + one.key_encoder.head.weight.grad
        torch.testing.assert_close(method.query_encoder.head.weight.grad, both)


def test_end_to_end_keys_are_normalized_in_other_company_than_their_queries() -> None:
    plain, shuffled = end_to_end(shared=True), end_to_end(shared=True, groups=2)
    losses = [float(method([images(), images(1)], torch.arange(BATCH))[0]) for method in (plain, shuffled)]
    assert losses[0] != pytest.approx(losses[1], abs=1e-4)


@given(
    ids=st.lists(st.integers(0, IMAGES - 1), min_size=1, max_size=8, unique=True),
    momentum=st.sampled_from([0.0, 0.5, 0.9]),
    steps=st.integers(1, 4),
)
def test_the_bank_blends_features_in_and_draws_no_image_of_the_batch(
    ids: list[int], momentum: float, steps: int
) -> None:
    bank = MemoryBank(IMAGES, DIM, negatives=IMAGES - 8, momentum=momentum, seed=3)
    model = bank.keys.clone().double()
    batch = torch.tensor(ids)
    for step in range(steps):
        positives, negatives = bank.look_up(torch.zeros(len(ids), DIM), batch)
        torch.testing.assert_close(positives.double(), model[batch], atol=1e-6, rtol=0)
        drawn = [int((model - row).abs().sum(1).argmin()) for row in negatives.double()]
        assert len(set(drawn)) == len(drawn) == IMAGES - 8
        assert not set(drawn) & set(ids)
        features = unit_norm(torch.randn(len(ids), DIM, generator=torch.Generator().manual_seed(step)))
        bank.update(features, batch)
        model[batch] = nn.functional.normalize(momentum * model[batch] + (1 - momentum) * features.double(), dim=1)
    torch.testing.assert_close(bank.keys.norm(dim=1), torch.ones(IMAGES))


def test_the_drawn_negatives_are_a_function_of_seed_and_step() -> None:
    def draws(bank: MemoryBank) -> list[torch.Tensor]:
        ids = torch.arange(2)
        found = []
        for _ in range(3):
            found.append(bank.look_up(bank.keys[:2], ids)[1].clone())
            bank.update(bank.keys[:2].clone(), ids)
        return found

    def bank(seed: int) -> MemoryBank:
        return MemoryBank(IMAGES, DIM, negatives=5, momentum=0.5, seed=seed)

    first, second, other = draws(bank(1)), draws(bank(1)), draws(bank(2))
    assert all(map(torch.equal, first, second))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])
    resumed, straight = bank(1), bank(1)
    straight.update(straight.keys[:2].clone(), torch.arange(2))
    resumed.load_state_dict(straight.state_dict())
    assert torch.equal(
        straight.look_up(straight.keys[:2], torch.arange(2))[1], resumed.look_up(straight.keys[:2], torch.arange(2))[1]
    )


def test_a_memory_bank_step_trains_the_encoder_and_stores_its_features() -> None:
    bank = MemoryBank(IMAGES, DIM, negatives=8, momentum=0.0, seed=0)
    method = InstanceDiscrimination(tiny_encoder(), bank, temperature=0.2).train()
    before = bank.keys.clone()
    expected = unit_norm(tiny_encoder().train()(images())).detach()
    weights = method.query_encoder.head.weight.detach().clone()
    optimizer = torch.optim.SGD(method.query_encoder.parameters(), lr=0.1)
    ids = torch.tensor([4, 9, 2, 7, 0, 11])
    Trainee(method, optimizer, autocast=None).step([images()], ids)
    torch.testing.assert_close(bank.keys[ids], expected)
    rest = np.setdiff1d(np.arange(IMAGES), ids.numpy())
    assert torch.equal(bank.keys[rest], before[rest])
    assert not torch.equal(method.query_encoder.head.weight, weights)
    assert not bank.keys.requires_grad
