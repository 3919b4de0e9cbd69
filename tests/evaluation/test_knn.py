"""Weighted kNN against scikit-learn, loops in float64, cases computed by hand, and degenerate sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from mocosearch.errors import Unscorable
from mocosearch.evaluation.knn import chance_accuracy, evaluate_knn
from mocosearch.evaluation.outcome import Outcome

# Cosines: a0 a1 .8, a0 b0 0, a0 b1 -.6, a1 b0 .6, a1 b1 0, b0 b1 .8
FOUR = np.array([[1, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]], dtype=np.float32)
TWO_AND_TWO = np.array([0, 0, 1, 1])


def knn_accuracy(
    vectors: NDArray[np.floating], labels: NDArray[np.int64], k: int = 20, temperature: float = 0.07
) -> float:
    return evaluate_knn(vectors, labels, k=k, temperature=temperature).figures[0].value


def precision_at_10(vectors: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    return evaluate_knn(vectors, labels).figures[1].value


def scikit_learns(
    vectors: NDArray[np.floating],
    labels: NDArray[np.int64],
    held_out: NDArray[np.bool_] | None,
    k: int,
    temperature: float = 0.07,
) -> NDArray[np.float64]:
    """Tell (m,) whether scikit-learn names each scored photo rightly."""
    classifier = KNeighborsClassifier(
        k, metric="cosine", algorithm="brute", weights=lambda distances: np.exp((1 - distances) / temperature)
    )
    if held_out is None:
        predicted = classifier.fit(vectors, labels).predict(None)  # leave-one-out
        return (predicted == labels).astype(np.float64)
    classifier.fit(vectors[~held_out], labels[~held_out])
    return (classifier.predict(vectors[held_out]) == labels[held_out]).astype(np.float64)


def right(outcome: Outcome) -> list[float]:
    """Return what the accuracy is the mean of."""
    accuracy = outcome.figures[0]
    assert accuracy.of_photos is not None
    assert accuracy.value == pytest.approx(accuracy.of_photos.mean())
    return accuracy.of_photos.tolist()


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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parts", [False, True])
def test_every_photo_is_named_as_scikit_learn_does(seed: int, parts: bool) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 6, 300) * 3 - 7
    vectors = generator.standard_normal((300, 16)) + np.eye(16)[labels % 16]
    held_out = generator.random(300) < 0.3 if parts else None
    outcome = evaluate_knn(vectors, labels, held_out, k=15)
    assert right(outcome) == scikit_learns(vectors, labels, held_out, 15).tolist()
    curve = outcome.curves[0]
    assert curve.x.tolist() == [1, 2, 5, 10, 20, 50, 100, 200]
    assert curve.y == pytest.approx([scikit_learns(vectors, labels, held_out, int(k)).mean() for k in curve.x])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=2, max_size=25))
def test_ties_small_classes_and_classes_of_one_part_are_decided_as_in_scikit_learn(
    photos: list[tuple[int, int, bool]],
) -> None:
    axes, labels, out = (np.array(column) for column in zip(*photos, strict=True))
    held_out = None if out.all() or not out.any() else out
    searched = len(photos) - 1 if held_out is None else int((~out).sum())
    # Votes of 1 and 2, without rounding: ties are ties.
    found = right(evaluate_knn(np.eye(4)[axes], labels, held_out, k=100, temperature=1 / np.log(2)))
    assert found == scikit_learns(np.eye(4)[axes], labels, held_out, searched, 1 / np.log(2)).tolist()


def test_a_test_part_is_searched_for_in_the_training_part_only() -> None:
    held_out = np.array([False, True, False, True])
    labels = np.array([0, 1, 1, 1])
    outcome = evaluate_knn(FOUR, labels, held_out, k=1)
    assert right(outcome) == [0, 1]  # a1 finds a0, b1 finds b0
    precision = outcome.figures[1]
    assert precision.of_photos is not None
    assert precision.of_photos.tolist() == [0.5, 0.5]
    assert precision.chance == 0.5
    assert outcome.figures[0].chance == chance_accuracy(labels, held_out) == 0.5  # of two equal classes
    assert (outcome.facts["scored"], outcome.facts["searched"], outcome.facts["classes"]) == (2, 2, 2)
    assert outcome.examples is not None
    assert outcome.examples.queries.tolist() == [1, 3]
    assert outcome.examples.neighbors.tolist() == [[0, 2], [2, 0]]
    assert outcome.examples.hits.tolist() == [[False, True], [True, False]]


def test_classes_that_only_the_test_part_has_count_as_wrong_and_are_said() -> None:
    outcome = evaluate_knn(FOUR, np.array([0, 0, 1, 2]), np.array([False, True, False, True]), k=1)
    assert right(outcome) == [1, 0]
    assert outcome.facts["alone"] == 1
    assert any("For 1 of the scored photos there is no other of their class" in notice for notice in outcome.notices)


@pytest.mark.parametrize("held_out", [np.zeros(4, dtype=bool), np.ones(4, dtype=bool)])
def test_an_empty_part_is_refused(held_out: NDArray[np.bool_]) -> None:
    with pytest.raises(Unscorable, match="put photos into both"):
        evaluate_knn(FOUR, TWO_AND_TWO, held_out)


def test_a_set_too_small_for_k_names_the_number_that_voted() -> None:
    outcome = evaluate_knn(np.eye(4) + 1, np.array([0, 0, 0, 7]), k=20)
    assert (outcome.facts["k"], outcome.facts["alone"]) == (3, 1)
    assert any("Only 3 neighbors vote, not 20" in notice for notice in outcome.notices)
    assert outcome.figures[0].chance == 0.75
    assert outcome.curves[0].x.tolist() == [1, 2]
    assert evaluate_knn(FOUR, TWO_AND_TWO, k=3).notices == ()


def test_figures_of_four_photos_computed_by_hand() -> None:
    assert knn_accuracy(FOUR, TWO_AND_TWO, k=1) == 1.0
    assert precision_at_10(FOUR, TWO_AND_TWO) == pytest.approx(1 / 3)  # of the three others


def test_the_temperature_decides_whether_one_near_or_two_far_neighbors_win() -> None:
    vectors = np.array([[1, 0], [1, 0], [0.6, 0.8], [0.6, -0.8]])
    assert knn_accuracy(vectors, TWO_AND_TWO, k=3, temperature=0.07) == 0.5
    assert knn_accuracy(vectors, TWO_AND_TWO, k=3, temperature=10) == 0.0
    assert knn_accuracy(vectors, TWO_AND_TWO, k=3, temperature=1e-6) == 0.5  # exp(1e6) must not overflow


def test_a_collapsed_encoder_scores_chance() -> None:
    same = np.ones((9, 4), dtype=np.float32)
    labels = np.repeat([0, 1, 2], 3)
    assert knn_accuracy(same, labels, k=2) == pytest.approx(chance_accuracy(labels))


def test_one_class_is_always_right_and_so_is_chance() -> None:
    labels = np.zeros(4, dtype=np.int64)
    assert knn_accuracy(FOUR, labels) == chance_accuracy(labels) == 1.0
    assert precision_at_10(FOUR, labels) == 1.0
    assert evaluate_knn(FOUR, labels, k=1).notices == ("All photos are of one class: every encoder is always right.",)


def test_a_photo_alone_in_its_class_counts_as_wrong() -> None:
    labels = np.array([0, 0, 0, 5])
    assert knn_accuracy(FOUR, labels, k=3, temperature=10) == 0.75
    assert precision_at_10(FOUR, labels) == pytest.approx((3 * 2 / 3 + 0) / 4)


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


def test_chance_accuracy_is_what_naming_the_largest_class_to_learn_from_scores() -> None:
    labels = np.array([4, 4, 4, 9, 9])
    assert chance_accuracy(labels) == 0.6
    assert chance_accuracy(labels, np.array([True, True, False, False, False])) == 0.0
    assert chance_accuracy(labels, np.array([True, False, False, False, True])) == 0.5
