"""kNN and precision@k against loops in float64, cases computed by hand, and degenerate sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.knn import chance_accuracy, evaluate_knn
from mocosearch.evaluation.neighbors import leave_one_out

# Cosines: a0 a1 .8, a0 b0 0, a0 b1 -.6, a1 b0 .6, a1 b1 0, b0 b1 .8
FOUR = np.array([[1, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]], dtype=np.float32)
TWO_AND_TWO = np.array([0, 0, 1, 1])


def knn_accuracy(
    vectors: NDArray[np.floating], labels: NDArray[np.int64], k: int = 20, temperature: float = 0.07
) -> float:
    return evaluate_knn(vectors, labels, k=k, temperature=temperature).figures[0].value


def precision_at_10(vectors: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    return evaluate_knn(vectors, labels).figures[1].value


def sorted_others(vectors: NDArray[np.floating], own: int) -> list[tuple[float, int]]:
    """All others as (cosine, index), best first: the definition, in float64."""
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    others = [(float(unit[own] @ unit[i]), i) for i in range(len(unit)) if i != own]
    return sorted(others, key=lambda pair: (-pair[0], pair[1]))


def reference_knn(vectors: NDArray[np.floating], labels: NDArray[np.int64], k: int, temperature: float) -> float:
    right = 0
    for own in range(len(vectors)):
        votes: dict[int, float] = {}
        for cosine, index in sorted_others(vectors, own)[:k]:
            votes[int(labels[index])] = votes.get(int(labels[index]), 0) + np.exp(cosine / temperature)
        right += max(sorted(votes), key=lambda name: votes[name]) == labels[own]
    return right / len(vectors)


def reference_precision(vectors: NDArray[np.floating], labels: NDArray[np.int64], k: int) -> float:
    shares = []
    for own in range(len(vectors)):
        shown = [index for _, index in sorted_others(vectors, own)[:k]]
        shares.append(np.mean([labels[index] == labels[own] for index in shown]))
    return float(np.mean(shares))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 5, 500])
def test_both_figures_agree_with_plain_loops(seed: int, k: int) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 4, 90) * 7 - 3  # any integers do as labels
    vectors = generator.standard_normal((90, 12)) * 3 + 2 * np.eye(12)[labels // 7 + 1]
    assert knn_accuracy(vectors, labels, k=k) == reference_knn(vectors, labels, k, 0.07)
    assert knn_accuracy(vectors, labels, k=k, temperature=0.5) == reference_knn(vectors, labels, k, 0.5)
    assert precision_at_10(vectors, labels) == pytest.approx(reference_precision(vectors, labels, 10), abs=1e-12)


def test_neighbors_of_a_set_larger_than_one_block_are_those_of_plain_sorting() -> None:
    vectors = np.random.default_rng(0).standard_normal((4500, 8)).astype(np.float32)
    found = leave_one_out(vectors, 3)
    for own in (0, 1, 3000, 4499):  # a block has 3,728 rows
        expected = sorted_others(vectors, own)[:3]
        assert found.indices[own].tolist() == [index for _, index in expected]
        assert found.scores[own] == pytest.approx([cosine for cosine, _ in expected], abs=1e-6)


def test_figures_of_four_photos_computed_by_hand() -> None:
    assert knn_accuracy(FOUR, TWO_AND_TWO, k=1) == 1.0
    assert precision_at_10(FOUR, TWO_AND_TWO) == pytest.approx(1 / 3)  # of the three others


def test_the_temperature_decides_whether_one_near_or_two_far_neighbors_win() -> None:
    vectors = np.array([[1, 0], [1, 0], [0.6, 0.8], [0.6, -0.8]])
    assert knn_accuracy(vectors, TWO_AND_TWO, k=3, temperature=0.07) == 0.5
    assert knn_accuracy(vectors, TWO_AND_TWO, k=3, temperature=10) == 0.0
    assert knn_accuracy(vectors, TWO_AND_TWO, k=3, temperature=1e-6) == 0.5  # exp(1e6) must not overflow


def test_length_of_a_vector_does_not_matter() -> None:
    lengths = np.array([[1e-6], [1e6], [3], [0.25]])
    assert np.array_equal(leave_one_out(FOUR * lengths, 3).indices, leave_one_out(FOUR, 3).indices)


def test_k_beyond_the_set_means_all_others() -> None:
    assert leave_one_out(FOUR, 100).indices.shape == (4, 3)


def test_equal_neighbors_come_by_index_so_that_a_collapsed_encoder_scores_chance() -> None:
    same = np.ones((9, 4), dtype=np.float32)
    assert leave_one_out(same, 3).indices[[0, 1, 8]].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 2]]
    labels = np.repeat([0, 1, 2], 3)
    assert knn_accuracy(same, labels, k=2) == pytest.approx(chance_accuracy(labels))


def test_a_few_ties_for_the_last_place_are_broken_by_index() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 0], [1, 0], [0, -1]], dtype=np.float32)
    found = leave_one_out(vectors, 4)
    assert found.indices[0].tolist() == [2, 4, 5, 1]
    assert found.indices[1].tolist() == [3, 0, 2, 4]
    assert found.indices[6].tolist() == [0, 2, 4, 5]


def test_one_class_is_always_right_and_so_is_chance() -> None:
    labels = np.zeros(4, dtype=np.int64)
    assert knn_accuracy(FOUR, labels) == chance_accuracy(labels) == 1.0
    assert precision_at_10(FOUR, labels) == 1.0


def test_a_photo_alone_in_its_class_counts_as_wrong() -> None:
    labels = np.array([0, 0, 0, 5])
    assert knn_accuracy(FOUR, labels, k=3, temperature=10) == 0.75
    assert precision_at_10(FOUR, labels) == pytest.approx((3 * 2 / 3 + 0) / 4)


def test_a_zero_vector_is_like_nothing_and_breaks_nothing() -> None:
    vectors = np.vstack([FOUR, np.zeros((1, 2), dtype=np.float32)])
    assert leave_one_out(vectors, 4).scores[4].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_refused(bad: float) -> None:
    vectors = FOUR.copy()
    vectors[2, 1] = bad
    with pytest.raises(Unscorable, match="1 of 4 vectors"):
        knn_accuracy(vectors, TWO_AND_TWO)


def test_one_photo_has_no_neighbors() -> None:
    with pytest.raises(Unscorable, match="at least 2"):
        knn_accuracy(FOUR[:1], TWO_AND_TWO[:1])


def test_senseless_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="k must"):
        knn_accuracy(FOUR, TWO_AND_TWO, k=0)
    with pytest.raises(ValueError, match="temperature"):
        knn_accuracy(FOUR, TWO_AND_TWO, temperature=0)
    with pytest.raises(ValueError, match="labels"):
        knn_accuracy(FOUR, TWO_AND_TWO[:3])
    with pytest.raises(ValueError, match="shape"):
        knn_accuracy(np.array([0.0, 1.0]), TWO_AND_TWO[:2])


@given(st.lists(st.integers(0, 5), min_size=2, max_size=11))
def test_chance_precision_is_what_showing_everything_scores(labels: list[int]) -> None:
    vectors = np.random.default_rng(0).standard_normal((len(labels), 3))
    precision = evaluate_knn(vectors, np.array(labels)).figures[1]
    assert precision.chance == pytest.approx(precision.value)


def test_chance_accuracy_is_the_share_of_the_largest_class() -> None:
    assert chance_accuracy(np.array([4, 4, 4, 9])) == 0.75
