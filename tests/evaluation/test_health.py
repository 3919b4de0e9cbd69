"""Label-free figures on sets whose answer is known."""

import math

import numpy as np
import pytest

from mocosearch.errors import Unscorable
from mocosearch.evaluation.health import alignment, effective_rank, label_free_health, uniformity


def test_the_effective_rank_of_equally_used_directions_is_their_number() -> None:
    vectors = np.tile(np.eye(8, 20, dtype=np.float32), (5, 1))
    assert label_free_health(vectors).effective_rank == pytest.approx(8, rel=1e-6)
    assert label_free_health(vectors[:8]).effective_rank == pytest.approx(8, rel=1e-6)  # fewer photos than dimensions


def test_the_effective_rank_weighs_singular_values_by_their_entropy() -> None:
    vectors = np.repeat(np.eye(2, dtype=np.float32), [9, 1], axis=0)  # singular values 3 and 1
    expected = math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert effective_rank(vectors) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shape", [(200, 40), (40, 200)])
def test_the_effective_rank_is_that_of_a_singular_value_decomposition(shape: tuple[int, int]) -> None:
    vectors = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * np.logspace(0, -3, shape[1])
    singular = np.linalg.svd(vectors.astype(np.float64), compute_uv=False)
    shares = singular / singular.sum()
    expected = np.exp(-(shares * np.log(shares)).sum())
    assert effective_rank(vectors.astype(np.float32)) == pytest.approx(expected, rel=1e-4)


def test_uniformity_is_the_mean_over_all_pairs() -> None:
    vectors = np.random.default_rng(0).standard_normal((30, 5))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [math.exp(-2 * float(((a - b) ** 2).sum())) for i, a in enumerate(unit) for b in unit[:i]]
    assert label_free_health(vectors).uniformity == pytest.approx(math.log(np.mean(pairs)), abs=1e-5)


def test_uniformity_of_many_vectors_is_close_to_that_of_a_sample() -> None:
    vectors = np.random.default_rng(0).standard_normal((9000, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert uniformity(vectors) == pytest.approx(uniformity(vectors[:4096]), abs=0.01)


def test_the_spread_of_directions_that_fill_the_space_is_one() -> None:
    both_ways = np.vstack([np.eye(6), -np.eye(6)])
    assert label_free_health(both_ways).feature_spread == pytest.approx(1)


def test_vectors_that_are_almost_one_point_or_one_line_are_called_collapsed() -> None:
    generator = np.random.default_rng(0)
    point = np.ones(64) + 1e-3 * generator.standard_normal((100, 64))
    line = np.outer(np.where(np.arange(100) % 2, 1, -1), np.ones(64))
    spread = np.abs(generator.standard_normal((100, 64)))  # positive, as after a ReLU
    assert label_free_health(point).collapsed
    assert label_free_health(line).collapsed
    assert not label_free_health(spread).collapsed


def test_a_set_of_zero_vectors_is_collapsed() -> None:
    health = label_free_health(np.zeros((5, 3)))
    assert health.collapsed
    assert health.effective_rank == 1.0


def test_alignment_is_the_mean_squared_distance_of_unit_vectors() -> None:
    views = np.array([[2.0, 0.0], [0.0, 3.0]])
    assert alignment(views, views * 5) == pytest.approx(0)
    assert alignment(views, views[::-1]) == pytest.approx(2)
    assert alignment(views, -views) == pytest.approx(4)
    with pytest.raises(ValueError, match="one shape"):
        alignment(views, views[:1])


def test_non_finite_vectors_and_a_single_photo_are_refused() -> None:
    with pytest.raises(Unscorable, match="1 of 2"):
        label_free_health(np.array([[1.0, 2.0], [np.nan, 0.0]]))
    with pytest.raises(Unscorable, match="at least 2"):
        label_free_health(np.ones((1, 4)))
