"""The fast linear probe: scikit-learn's accuracy, honesty about the test part, and sets that are too small."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from mocosearch.errors import Unscorable
from mocosearch.evaluation.linear import probe
from mocosearch.evaluation.linear.logistic import Setting, principal_axes, train
from mocosearch.evaluation.linear.probe import DECAYS, RATES, SETTINGS, _Validation, evaluate_linear
from mocosearch.evaluation.split import stratified_split

Set = tuple[NDArray[np.float32], NDArray[np.int64]]
_SCORED = 3000  # photos: half a point are 15 of them


def blobs(count: int, dim: int, classes: int, distance: float) -> Set:
    """Gaussian classes, `distance` standard deviations from the origin each along its own axis."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % classes
    vectors = generator.standard_normal((count, dim)) + distance * np.eye(classes, dim)[labels]
    return vectors.astype(np.float32), labels


def of_a_network() -> Set:
    """Directions whose variance falls as those of a network's features do, turned, in units of very different size."""
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 6, 1500 + _SCORED)
    centers = generator.standard_normal((6, 48))
    vectors = (generator.standard_normal((len(labels), 48)) + 0.5 * centers[labels]) * np.arange(1, 49) ** -1.5
    turned = vectors @ np.linalg.qr(generator.standard_normal((48, 48)))[0]
    return (turned * np.logspace(-3, 3, 48)).astype(np.float32), labels


def many_classes() -> Set:
    return blobs(2500 + _SCORED, 60, 40, 3)


def few_photos_of_many_numbers() -> Set:
    return blobs(200 + _SCORED, 400, 2, 2)


def more_numbers_than_a_batch_has_photos() -> Set:
    return blobs(1200 + _SCORED, 400, 3, 2)


def mostly_one_class() -> Set:
    vectors, labels = blobs(6 * (1500 + _SCORED), 24, 6, 1.5)
    share = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6])[labels]
    kept = np.flatnonzero(np.random.default_rng(2).random(len(labels)) < share)[: 1500 + _SCORED]
    return vectors[kept], labels[kept]


def wrong_labels() -> Set:
    vectors, labels = blobs(2000 + _SCORED, 20, 4, 2.5)
    generator = np.random.default_rng(3)
    return vectors, np.where(generator.random(len(labels)) < 0.3, generator.integers(0, 4, len(labels)), labels)


@pytest.mark.parametrize(
    "make",
    [
        of_a_network,
        many_classes,
        few_photos_of_many_numbers,
        more_numbers_than_a_batch_has_photos,
        mostly_one_class,
        wrong_labels,
    ],
)
def test_it_scores_no_less_than_half_a_point_below_what_is_chosen_alike_with_scikit_learn(
    make: Callable[[], Set],
) -> None:
    vectors, labels = make()
    held_out = np.arange(len(labels)) >= len(labels) - _SCORED
    scaled = StandardScaler().fit(vectors[~held_out]).transform(vectors)
    learned, validation = (np.flatnonzero(~held_out)[part] for part in stratified_split(labels[~held_out], 0.2, seed=0))
    solvers = [LogisticRegression(C=c, max_iter=5000) for c in np.logspace(-3, 1, 5)]
    best = max(
        solvers, key=lambda it: it.fit(scaled[learned], labels[learned]).score(scaled[validation], labels[validation])
    )
    reached = best.fit(scaled[~held_out], labels[~held_out]).score(scaled[held_out], labels[held_out])
    [figure] = evaluate_linear(vectors, labels, held_out).figures
    assert figure.value > reached - 0.005
    assert figure.of_photos is not None
    assert figure.of_photos.shape == (_SCORED,)
    assert figure.value == figure.of_photos.mean()


@pytest.mark.parametrize("decay", [0.1, 0.01, 0.001])
def test_each_decay_reaches_the_optimum_that_scikit_learn_finds(decay: float) -> None:
    vectors, labels = blobs(300, 20, 4, 1.5)
    vectors[:, 3] = vectors[:, 5] * 2 + 1  # as correlated as can be
    vectors *= np.logspace(-3, 3, 20, dtype=np.float32)  # and of very different scale
    axes = principal_axes(vectors)
    inputs = axes.turn(vectors)
    others = [Setting(0.1, other) for other in (1.0, 1e-4)]
    settings = [others[0], Setting(0.1, decay), others[1]]
    trained = train(inputs, torch.from_numpy(labels), 4, settings, axes.variances, seed=0)
    found = trained.logits(inputs)[:, 1].softmax(1).numpy()
    scaled = StandardScaler().fit_transform(vectors.astype(np.float64))
    solver = LogisticRegression(C=1 / (decay * len(labels)), tol=1e-8, max_iter=10000).fit(scaled, labels)
    np.testing.assert_allclose(found, solver.predict_proba(scaled), atol=0.02)
    right, losses = trained.score(inputs, torch.from_numpy(labels))
    assert right[:, 1].mean() == pytest.approx(solver.score(scaled, labels), abs=0.005)
    assert losses[1] == pytest.approx(log_loss(labels, solver.predict_proba(scaled)), abs=0.005)


@pytest.mark.parametrize(("photos", "used"), [(12, 11), (39, 38), (40, 38), (200, 38)])
def test_the_axes_are_the_principal_ones_of_standardized_features_however_few_photos_there_are(
    photos: int, used: int
) -> None:
    vectors = np.random.default_rng(0).standard_normal((photos, 40)) * np.logspace(-3, 3, 40) + 1
    vectors[:, 7] = 5
    vectors[:, 8] = 1 - vectors[:, 9]
    axes = principal_axes(vectors.astype(np.float32))
    turned = axes.turn(vectors.astype(np.float32)).double().numpy()
    scaled = StandardScaler().fit_transform(vectors)
    assert turned.shape == (photos, used)
    np.testing.assert_allclose(turned @ turned.T, scaled @ scaled.T, atol=1e-2)
    np.testing.assert_allclose(turned.T @ turned / photos, np.diag(axes.variances), atol=1e-4)


def test_directions_of_which_a_batch_says_little_do_not_drown_what_it_teaches_where_decay_is_weak() -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(300 + 1000) % 4
    causes = generator.standard_normal((len(labels), 1000))
    causes[:, :12] += 0.7 * generator.standard_normal((4, 12))[labels]
    vectors = (causes * np.arange(1, 1001) ** -0.5) @ generator.standard_normal((1000, 1000))
    vectors = StandardScaler().fit(vectors[:300]).transform(vectors).astype(np.float32)
    solver = LogisticRegression(C=1 / (min(DECAYS) * 300)).fit(vectors[:300], labels[:300])
    axes = principal_axes(vectors[:300])
    settings = [Setting(rate, min(DECAYS)) for rate in RATES]
    trained = train(axes.turn(vectors[:300]), torch.from_numpy(labels[:300]), 4, settings, axes.variances, seed=0)
    right, _ = trained.score(axes.turn(vectors[300:]), torch.from_numpy(labels[300:]))
    assert right.mean(axis=0).min() > solver.score(vectors[300:], labels[300:]) - 0.1  # .18 below, were they not damped


def test_classes_that_a_plane_separates_are_told_apart_and_noise_is_not() -> None:
    vectors, labels = blobs(600, 16, 3, 12)
    easy = evaluate_linear(vectors, labels)
    assert easy.figures[0].value == 1
    assert easy.notices == ()
    noise = np.random.default_rng(1).standard_normal((600, 16))
    [figure] = evaluate_linear(noise, labels).figures
    assert figure.chance == pytest.approx(1 / 3)
    assert figure.value == pytest.approx(1 / 3, abs=0.13)  # three standard errors of 120 photos


def test_nothing_is_chosen_or_learned_by_the_test_part() -> None:
    vectors, labels = blobs(500, 12, 5, 1.5)
    honest = evaluate_linear(vectors, labels, seed=7)
    _, test = stratified_split(labels, 0.2, seed=7)
    spoiled = vectors.copy()
    spoiled[test] = 1000 * np.random.default_rng(2).standard_normal((len(test), 12))
    outcome = evaluate_linear(spoiled, labels, seed=7)
    assert outcome.facts == honest.facts
    assert [curve.y.tolist() for curve in outcome.curves] == [curve.y.tolist() for curve in honest.curves]
    assert outcome.figures[0].value < honest.figures[0].value - 0.15


def test_a_test_part_that_is_given_is_scored_by_what_the_rest_teaches() -> None:
    vectors, labels = blobs(400, 8, 4, 6)
    held_out = np.arange(400) >= 300
    swapped = np.where(held_out, (labels + 1) % 4, labels)
    for own, accuracy in ((labels, 1.0), (swapped, 0.0)):
        outcome = evaluate_linear(vectors, own, held_out)
        assert outcome.figures[0].value == pytest.approx(accuracy, abs=0.03)
        assert (outcome.facts["train"], outcome.facts["test"]) == (300, 100)


def test_photos_of_a_class_that_is_nowhere_to_learn_from_count_as_wrong_and_are_told_of() -> None:
    vectors, labels = blobs(400, 8, 4, 12)
    outcome = evaluate_linear(vectors, labels, (np.arange(400) >= 300) | (labels == 2))
    assert outcome.figures[0].of_photos is not None
    assert outcome.figures[0].of_photos.sum() == 75
    assert outcome.figures[0].chance == pytest.approx(25 / 175)  # of three equal classes any may be named
    assert outcome.notices == (
        "100 of the scored photos are of a class without photos to learn from, which counts as wrong.",
    )


def test_the_outcome_is_a_function_of_the_seed() -> None:
    vectors, labels = blobs(200, 8, 4, 1)
    first, again = (evaluate_linear(vectors, labels, seed=1).figures[0].of_photos for _ in range(2))
    assert first is not None
    assert first.tolist() == again.tolist()  # type: ignore[union-attr]
    assert evaluate_linear(vectors, labels, seed=2).figures[0].of_photos.tolist() != first.tolist()  # type: ignore[union-attr]


def test_what_was_chosen_is_as_good_as_the_best_of_the_curves_but_for_luck() -> None:
    vectors, labels = blobs(600, 60, 3, 2)
    outcome = evaluate_linear(vectors, labels)
    by_decay, by_rate = outcome.curves
    assert sorted(by_decay.x) == sorted(DECAYS)
    assert sorted(by_rate.x) == sorted(RATES)
    assert by_decay.y.max() == by_rate.y.max()
    luck = 0.25 * 0.5 / np.sqrt(96)  # photos are validated on: a fifth of the 480 that are learned
    assert by_decay.y[by_decay.x == outcome.facts["weight decay"]] >= by_decay.y.max() - luck
    assert by_rate.y[by_rate.x == outcome.facts["learning rate"]] >= by_rate.y.max() - luck
    assert outcome.facts["settings"] == len(SETTINGS) == 24


def test_settings_that_are_too_many_for_the_memory_are_trained_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, labels = blobs(300, 10, 3, 1)
    at_once = evaluate_linear(vectors, labels)
    monkeypatch.setattr(probe, "_WEIGHTS", 10 * 3 * 7)  # three times 7 settings, and 3
    in_turns = evaluate_linear(vectors, labels)
    assert in_turns.facts == at_once.facts
    for one, other in zip(in_turns.curves, at_once.curves, strict=True):
        assert one.y == pytest.approx(other.y, abs=0.02)


def test_of_the_most_accurate_settings_but_for_luck_the_one_of_least_loss_is_taken() -> None:
    accuracy, loss = np.full((len(DECAYS), len(RATES)), 0.5), np.ones((len(DECAYS), len(RATES)))
    accuracy[2, 1], accuracy[5, 0] = 0.8, 0.79
    loss[0, 0], loss[2, 1], loss[5, 0] = 0.1, 0.6, 0.5
    assert _Validation(accuracy, loss, error=0.05).best() == Setting(RATES[0], DECAYS[5])
    assert _Validation(accuracy, loss, error=0.03).best() == Setting(RATES[1], DECAYS[2])


def test_a_choice_at_the_border_of_the_grid_is_told_of() -> None:
    vectors, _ = blobs(1000, 40, 2, 0)
    labels = (vectors[:, 39] > 0).astype(np.int64)
    hidden = vectors[:, :1] + 1e-3 * vectors  # what tells the classes apart is small beside what all have in common
    outcome = evaluate_linear(hidden, labels)
    assert outcome.facts["weight decay"] == min(DECAYS)
    assert outcome.notices == (
        "The best of the weight decays lies at the border of those tried: a wider range may score higher.",
    )


def test_coordinates_that_never_vary_change_nothing() -> None:
    vectors, labels = blobs(200, 8, 4, 2)
    wider = np.hstack([vectors, np.full((200, 3), [0, 1, 1e6], dtype=np.float32)])
    [figure], [same] = evaluate_linear(vectors, labels).figures, evaluate_linear(wider, labels).figures
    assert figure.value == same.value


def test_a_collapsed_encoder_scores_chance() -> None:
    labels = np.repeat([0, 1], [60, 40])
    [figure] = evaluate_linear(np.ones((100, 8)), labels).figures
    assert figure.value == figure.chance == 0.6


def test_a_photo_of_each_class_to_learn_from_is_enough_to_run() -> None:
    outcome = evaluate_linear(np.eye(3), np.array([0, 0, 1]))
    assert (outcome.facts["train"], outcome.facts["test"]) == (2, 1)
    assert outcome.facts["weight decay"] == max(DECAYS)
    assert outcome.curves == ()
    assert outcome.notices[0].startswith("No class has two photos to learn from")


@pytest.mark.parametrize(
    ("labels", "message"), [([], "at least 2 photos"), ([4, 4, 4], "2 classes"), ([1, 2, 3], "at least 2 photos")]
)
def test_too_few_classes_or_photos_are_refused_with_the_remedy(labels: list[int], message: str) -> None:
    with pytest.raises(Unscorable, match=message):
        evaluate_linear(np.ones((len(labels), 2)), np.array(labels, dtype=np.int64))


def test_vectors_that_are_not_finite_are_refused() -> None:
    vectors, labels = blobs(20, 4, 2, 1)
    vectors[3, 0] = np.nan
    with pytest.raises(Unscorable, match="1 of 20"):
        evaluate_linear(vectors, labels)
