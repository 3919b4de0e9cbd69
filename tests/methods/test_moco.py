import pytest
import torch
from torch import nn

from mocosearch.distributed import encode_in_groups, encode_shuffled, seeded_permutation
from mocosearch.methods import MoCo
from mocosearch.methods.dictionaries import Queue
from mocosearch.nets import ProjectedEncoder
from mocosearch.training.trainer import Trainee

DIM, K, BATCH = 4, 12, 8


def tiny_moco(*, groups: int = 1, momentum: float = 0.9, symmetric: bool = False) -> MoCo:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    encoder = ProjectedEncoder(backbone, nn.Linear(6, DIM))
    options = {"momentum": momentum, "temperature": 0.2, "batch_norm_groups": groups, "symmetric": symmetric}
    return MoCo(encoder, Queue(K, DIM), permutation=seeded_permutation(0), **options).train()


def views(step: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(BATCH, 3, 8, 8, generator=generator) for _ in range(2)]


def test_one_step_follows_the_order_of_algorithm_1() -> None:
    method = tiny_moco()
    optimizer = torch.optim.SGD(method.query_encoder.parameters(), lr=0.5)
    before_q = [p.detach().clone() for p in method.query_encoder.parameters()]
    before_k = [p.detach().clone() for p in method.key_encoder.parameters()]
    queue_before = method.dictionary.keys.clone()
    expected_keys = tiny_moco().encode_keys(views()[1])  # by the key encoder before its update
    Trainee(method, optimizer, autocast=None).step(views(), torch.arange(BATCH))
    for q0, k0, q1, k1 in zip(
        before_q, before_k, method.query_encoder.parameters(), method.key_encoder.parameters(), strict=True
    ):
        torch.testing.assert_close(k1, 0.9 * k0 + 0.1 * q1)  # the momentum update sees the updated query encoder
        assert k1.grad is None
        assert q1.grad is not None
        assert torch.equal(q0, k0)
    assert torch.equal(method.dictionary.keys[:BATCH], expected_keys)
    assert torch.equal(method.dictionary.keys[BATCH:], queue_before[BATCH:])


def test_momentum_leaves_batch_norm_statistics_to_the_key_encoders_own_passes() -> None:
    method = tiny_moco()
    query_view, key_view = views()
    method([query_view, key_view + 5], torch.arange(BATCH))
    method.after_step()
    statistics = method.key_encoder.backbone[1].running_mean
    alone = tiny_moco()
    alone.encode_keys(key_view + 5)
    assert torch.equal(statistics, alone.key_encoder.backbone[1].running_mean)
    assert not torch.allclose(statistics, method.query_encoder.backbone[1].running_mean)


def test_keys_come_back_in_the_order_of_their_images() -> None:
    images = torch.arange(12.0).view(12, 1)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    assert torch.equal(encode_shuffled(lambda x: x * 2, images, 3, order), images * 2)


def test_each_group_is_normalized_by_its_own_statistics() -> None:
    norm = nn.BatchNorm1d(1, affine=False).train()
    images = torch.tensor([[0.0], [2.0], [100.0], [300.0]])
    out = encode_in_groups(norm, images, 2)
    torch.testing.assert_close(out, torch.tensor([[-1.0], [1.0], [-1.0], [1.0]]), atol=1e-4, rtol=0)


def test_the_shuffle_changes_who_shares_statistics() -> None:
    norm = nn.BatchNorm1d(1, affine=False).train()
    images = torch.tensor([[0.0], [2.0], [100.0], [300.0]])
    straight = encode_in_groups(norm, images, 2)
    shuffled = encode_shuffled(norm, images, 2, torch.tensor([0, 2, 1, 3]))
    assert not torch.allclose(straight, shuffled, atol=0.05)


def test_a_batch_that_does_not_split_evenly_is_refused() -> None:
    with pytest.raises(ValueError, match="10 cannot be split into 4"):
        encode_in_groups(lambda x: x, torch.zeros(10, 1), 4)


def test_the_permutation_is_a_function_of_seed_and_step() -> None:
    permutation = seeded_permutation(4)
    assert torch.equal(permutation(7, 32), seeded_permutation(4)(7, 32))
    assert not torch.equal(permutation(7, 32), permutation(8, 32))
    assert not torch.equal(permutation(7, 32), seeded_permutation(5)(7, 32))
    assert sorted(permutation(7, 32).tolist()) == list(range(32))


def test_a_resumed_method_goes_on_to_the_very_same_numbers() -> None:
    def steps(method: MoCo, optimizer: torch.optim.Optimizer, numbers: range) -> list[float]:
        return [
            float(Trainee(method, optimizer, autocast=None).step(views(n), torch.arange(BATCH))[0]) for n in numbers
        ]

    def made() -> tuple[MoCo, torch.optim.Optimizer]:
        method = tiny_moco(groups=2)
        return method, torch.optim.SGD(method.query_encoder.parameters(), lr=0.1, momentum=0.9)

    straight = steps(*made(), range(6))
    first, optimizer = made()
    steps(first, optimizer, range(3))
    second, second_optimizer = made()
    second.load_state_dict(first.state_dict())
    second_optimizer.load_state_dict(optimizer.state_dict())
    assert steps(second, second_optimizer, range(3, 6)) == straight[3:]


def test_after_step_without_a_forward_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="follows forward"):
        tiny_moco().after_step()


def test_accuracy_counts_queries_nearer_to_their_key_than_to_any_negative() -> None:
    method = tiny_moco()
    same = views()[0]
    _, metrics = method([same, same], torch.arange(BATCH))  # both encoders are equal: every query is its key
    assert float(metrics["accuracy"]) == 1.0
    assert float(metrics["queue_fill"]) == 0.0


def test_the_symmetric_loss_is_the_mean_over_both_directions_and_enqueues_both_keys() -> None:
    first, second = views()
    ids = torch.arange(BATCH)
    symmetric = tiny_moco(symmetric=True)
    loss, _ = symmetric([first, second], ids)
    one = tiny_moco()
    forwards, _ = one([first, second], ids)
    backwards, _ = one([second, first], ids)  # the batch statistics, not the running ones, normalize in training
    torch.testing.assert_close(loss, (forwards + backwards) / 2)
    symmetric.after_step()
    plain = tiny_moco()
    expected = torch.cat([plain.encode_keys(second), plain.encode_keys(first)])
    for slot in range(2 * BATCH - K, 2 * BATCH):
        torch.testing.assert_close(symmetric.dictionary.keys[slot % K], expected[slot])
    assert int(symmetric.dictionary.seen) == 2 * BATCH
