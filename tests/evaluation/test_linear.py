"""The linear probe: its optimum, its honesty about the test part, and sets that are too small."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.intervals import wilson_interval
from mocosearch.evaluation.linear import STRENGTHS, linear_probe
from mocosearch.evaluation.logistic import fit_logistic
from mocosearch.evaluation.split import stratified_split


def blobs(count: int, dim: int, classes: int, distance: float) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Gaussian classes, `distance` standard deviations from the origin each along its own axis."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % classes
    vectors = generator.standard_normal((count, dim)) + distance * np.eye(classes, dim)[labels]
    return vectors.astype(np.float32), labels


def reference_logits(vectors: NDArray[np.float32], labels: NDArray[np.int64], classes: int, l2: float) -> torch.Tensor:
    """The same objective, solved as a textbook would: float64, standardized, L-BFGS to the end."""
    inputs = torch.from_numpy(vectors.astype(np.float64))
    inputs = (inputs - inputs.mean(0)) / inputs.std(0, correction=0)
    weight = torch.zeros(vectors.shape[1], classes, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS(
        [weight, bias],
        max_iter=2000,
        tolerance_grad=1e-9,
        tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )

    def closure() -> torch.Tensor:
        solver.zero_grad()
        loss = torch.nn.functional.cross_entropy(inputs @ weight + bias, torch.from_numpy(labels))
        loss = loss + l2 / 2 * (weight**2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    solver.step(closure)  # type: ignore[no-untyped-call]
    return (inputs @ weight + bias).detach()


def test_every_strength_reaches_the_optimum_that_a_textbook_solver_finds() -> None:
    vectors, labels = blobs(300, 20, 4, 1.5)
    vectors[:, 3] = vectors[:, 5] * 2 + 1  # as correlated as can be
    vectors *= np.logspace(-3, 3, 20, dtype=np.float32)  # and of very different scale
    strengths = [1.0, 0.1, 0.01, 0.001]
    fitted = fit_logistic(vectors, labels, 4, strengths)
    for setting, l2 in enumerate(strengths):
        centered = torch.from_numpy(vectors) - fitted.mean
        found = (centered @ fitted.weight[setting] + fitted.bias[setting]).softmax(1)
        expected = reference_logits(vectors, labels, 4, l2).softmax(1).float()
        torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)


def test_accuracy_of_the_probe_is_that_of_the_textbook_solver_at_the_strength_it_chose() -> None:
    vectors, labels = blobs(1000, 30, 5, 1.0)
    result = linear_probe(vectors, labels, seed=3)
    train, test = stratified_split(labels, 0.2, seed=3)
    mean, deviation = vectors[train].mean(0), vectors[train].std(0)
    both = np.vstack([vectors[train], vectors[test]])
    logits = reference_logits(vectors[train], labels[train], 5, result.l2)
    inputs = torch.from_numpy(((both - mean) / deviation).astype(np.float64))
    # The solution's weights, recovered from its logits on the training part, name the test part.
    columns = torch.cat([inputs, torch.ones(len(inputs), 1, dtype=torch.float64)], dim=1)
    solution = torch.linalg.lstsq(columns[: len(train)], logits).solution
    named = (columns[len(train) :] @ solution).argmax(1).numpy()
    assert result.accuracy == pytest.approx(np.mean(named == labels[test]), abs=0.005)


def test_classes_that_a_plane_separates_are_told_apart_and_noise_is_not() -> None:
    vectors, labels = blobs(600, 16, 3, 12)
    assert linear_probe(vectors, labels).accuracy == 1.0
    noise = np.random.default_rng(1).standard_normal((600, 16))
    result = linear_probe(noise, labels)
    assert result.chance == pytest.approx(1 / 3)
    assert result.interval[0] < result.chance < result.interval[1]


def test_nothing_is_chosen_by_the_test_part() -> None:
    vectors, labels = blobs(500, 12, 5, 1.5)
    honest = linear_probe(vectors, labels, seed=7)
    _, test = stratified_split(labels, 0.2, seed=7)
    spoiled = vectors.copy()
    spoiled[test] = np.random.default_rng(2).standard_normal((len(test), 12))
    result = linear_probe(spoiled, labels, seed=7)
    assert result.l2 == honest.l2
    assert result.accuracy < honest.accuracy - 0.15


def test_the_result_is_a_function_of_the_seed() -> None:
    vectors, labels = blobs(200, 8, 4, 1)
    assert linear_probe(vectors, labels, seed=1) == linear_probe(vectors, labels, seed=1)
    assert len({linear_probe(vectors, labels, seed=seed).accuracy for seed in range(6)}) > 1


def test_noise_in_many_dimensions_makes_it_choose_a_stronger_regularization() -> None:
    vectors, labels = blobs(200, 400, 2, 2)
    assert linear_probe(vectors, labels).l2 > STRENGTHS[-1]


@pytest.mark.parametrize("constant", [0.0, 1.0, 1e6])
def test_a_coordinate_that_never_varies_changes_nothing(constant: float) -> None:
    vectors, labels = blobs(200, 8, 4, 2)
    wider = np.hstack([vectors, np.full((200, 1), constant, dtype=np.float32)])
    assert linear_probe(wider, labels).accuracy == linear_probe(vectors, labels).accuracy


def test_a_collapsed_encoder_scores_chance() -> None:
    labels = np.repeat([0, 1], [60, 40])
    result = linear_probe(np.ones((100, 8)), labels)
    assert result.accuracy == result.chance == 0.6


def test_two_photos_of_one_class_and_one_of_another_are_enough_to_run() -> None:
    result = linear_probe(np.eye(3), np.array([0, 0, 1]))
    assert (result.train, result.test, result.l2) == (2, 1, STRENGTHS[0])


@pytest.mark.parametrize(
    ("labels", "message"), [([], "2 classes"), ([4, 4, 4], "2 classes"), ([1, 2, 3], "at least 2 photos")]
)
def test_too_few_classes_or_photos_are_refused_with_the_remedy(labels: list[int], message: str) -> None:
    with pytest.raises(Unscorable, match=message):
        linear_probe(np.ones((len(labels), 2)), np.array(labels, dtype=np.int64))


def test_vectors_that_are_not_finite_are_refused() -> None:
    vectors, labels = blobs(20, 4, 2, 1)
    vectors[3, 0] = np.nan
    with pytest.raises(Unscorable, match="1 of 20"):
        linear_probe(vectors, labels)


@given(st.lists(st.integers(0, 4), max_size=60), st.floats(0.05, 0.95), st.integers(0, 99))
def test_a_split_parts_the_photos_and_gives_both_sides_of_each_class(
    labels: list[int], held_out: float, seed: int
) -> None:
    kept, out = stratified_split(np.array(labels, dtype=np.int64), held_out, seed=seed)
    assert sorted([*kept, *out]) == list(range(len(labels)))
    for name in set(labels):
        count = labels.count(name)
        taken = sum(labels[index] == name for index in out)
        assert taken == 0 if count == 1 else 1 <= taken < count
        assert abs(taken - held_out * count) <= 1


def test_a_split_that_holds_out_nothing_or_everything_is_refused() -> None:
    for share in (0.0, 1.0):
        with pytest.raises(ValueError, match="held out"):
            stratified_split(np.zeros(4, dtype=np.int64), share, seed=0)


def test_the_wilson_interval_is_that_of_the_textbook() -> None:
    # Brown, Cai & DasGupta 2001: 0 of 10 gives 0 to .2775; 81 of 263 as in Newcombe 1998: .2553 to .3662
    assert wilson_interval(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert wilson_interval(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson_interval(1, 10) == pytest.approx((1 - 0.2775, 1), abs=1e-4)
    with pytest.raises(ValueError, match="share"):
        wilson_interval(0.5, 0)
