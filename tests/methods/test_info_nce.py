from math import exp, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mocosearch.methods.info_nce import info_nce
from mocosearch.nets import unit_norm


def vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_case_worked_by_hand() -> None:
    q = torch.tensor([[1.0, 0.0]])
    negatives = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    loss, logits = info_nce(q, torch.tensor([[0.6, 0.8]]), negatives, temperature=0.5)
    assert logits.tolist() == [[pytest.approx(1.2), 0.0, -2.0]]
    assert float(loss) == pytest.approx(-log(exp(1.2) / (exp(1.2) + 1 + exp(-2))))


@given(batch=st.integers(1, 6), k=st.integers(1, 9), dim=st.integers(1, 5), temperature=st.floats(0.05, 2))
def test_it_is_equation_1_averaged_over_the_batch(batch: int, k: int, dim: int, temperature: float) -> None:
    q, positive = unit_norm(vectors(batch, dim)), unit_norm(vectors(batch, dim, seed=1))
    negatives = unit_norm(vectors(k, dim, seed=2))
    loss, logits = info_nce(q, positive, negatives, temperature)
    expected = 0.0
    for i in range(batch):
        top = exp(float(q[i] @ positive[i]) / temperature)
        expected -= log(top / (top + sum(exp(float(q[i] @ n) / temperature) for n in negatives))) / batch
    assert float(loss) == pytest.approx(expected)
    assert logits.shape == (batch, 1 + k)


def test_negatives_of_each_query_agree_with_shared_ones() -> None:
    q, positive, negatives = vectors(3, 4), vectors(3, 4, seed=1), vectors(5, 4, seed=2)
    shared, _ = info_nce(q, positive, negatives, 0.2)
    separate, _ = info_nce(q, positive, negatives.expand(3, 5, 4), 0.2)
    assert float(shared) == pytest.approx(float(separate))


def test_a_query_that_guesses_loses_ln_of_k_plus_1() -> None:
    q = torch.tensor([[1.0, 0.0]])
    same = torch.tensor([[0.0, 1.0]])
    loss, _ = info_nce(q, same, same.expand(63, 2), 0.07)
    assert float(loss) == pytest.approx(log(64))


def test_under_bfloat16_autocast_the_logits_are_those_of_float32() -> None:
    q, positive, negatives = (
        vectors(*shape, seed=i).float() for i, shape in enumerate([(8, 128), (8, 128), (99, 128)])
    )
    expected, expected_logits = info_nce(q, positive, negatives, 0.07)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, logits = info_nce(q, positive, negatives, 0.07)
    assert loss.dtype == torch.float32
    assert torch.equal(logits, expected_logits)
    assert torch.equal(loss, expected)


def test_bfloat16_vectors_are_compared_in_float32() -> None:
    q = vectors(4, 16).bfloat16()
    loss, logits = info_nce(q, q, q, 0.1)
    assert (loss.dtype, logits.dtype) == (torch.float32, torch.float32)
