import torch
from hypothesis import given
from hypothesis import strategies as st

from mocosearch.methods.dictionaries import Queue
from mocosearch.nets import unit_norm


def keys_for(batch: int, dim: int, seed: int) -> torch.Tensor:
    return unit_norm(torch.randn(batch, dim, generator=torch.Generator().manual_seed(seed)))


@given(
    size=st.integers(1, 40),
    batches=st.lists(st.integers(1, 90), min_size=1, max_size=8),
    dim=st.integers(1, 5),
)
def test_the_queue_holds_the_last_k_keys_whatever_k_and_the_batches(size: int, batches: list[int], dim: int) -> None:
    queue = Queue(size, dim)
    slots: list[torch.Tensor] = list(queue.keys.clone())  # the plain model: write one key after the other, wrap around
    position = 0
    for number, batch in enumerate(batches):
        keys = keys_for(batch, dim, number)
        queue.update(keys, torch.arange(batch))
        for key in keys:
            slots[position] = key
            position = (position + 1) % size
    assert torch.equal(queue.keys, torch.stack(slots))
    assert int(queue.pointer) == position
    torch.testing.assert_close(queue.keys.norm(dim=1), torch.ones(size))
    assert float(queue.fill()) == min(1.0, torch.tensor(sum(batches) / size).item())


def test_a_fresh_queue_is_of_unit_length_reproducible_and_empty() -> None:
    first, second, other = Queue(7, 3, seed=5), Queue(7, 3, seed=5), Queue(7, 3, seed=6)
    torch.testing.assert_close(first.keys.norm(dim=1), torch.ones(7))
    assert torch.equal(first.keys, second.keys)
    assert not torch.equal(first.keys, other.keys)
    assert float(first.fill()) == 0


def test_looking_up_gives_the_keys_as_positives_and_the_whole_queue_as_negatives() -> None:
    queue, keys = Queue(6, 4), keys_for(3, 4, 1)
    positives, negatives = queue.look_up(keys, torch.arange(3))
    assert torch.equal(positives, keys)
    assert torch.equal(negatives, queue.keys)


def test_the_queue_keeps_the_precision_of_its_method() -> None:
    queue = Queue(4, 2).double()
    keys = keys_for(3, 2, 1).double() / 3
    queue.update(keys, torch.arange(3))
    assert torch.equal(queue.keys[:3], keys)


def test_pointer_keys_and_fill_survive_a_state_dict() -> None:
    queue, copy = Queue(5, 2), Queue(5, 2, seed=9)
    queue.update(keys_for(3, 2, 1), torch.arange(3))
    copy.load_state_dict(queue.state_dict())
    for one in (queue, copy):
        one.update(keys_for(4, 2, 2), torch.arange(4))
    assert torch.equal(queue.keys, copy.keys)
    assert int(copy.pointer) == 2
    assert float(copy.fill()) == 1
