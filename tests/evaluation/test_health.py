"""Label-free figures on sets whose answer is known."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.health import (
    TwoViews,
    alignment,
    evaluate_health,
    label_free_health,
    neighbor_stability,
    relative_alignment,
    uniformity,
)
from mocosearch.evaluation.outcome import Figure, Outcome

Floats = NDArray[np.float32]


def random_vectors(seed: int, count: int = 40, dim: int = 8) -> Floats:
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


def views_of(first: Floats, second: Floats, places: list[int] | None = None) -> TwoViews:
    return TwoViews(np.arange(len(first)) if places is None else np.array(places), first, second)


def figure(outcome: Outcome, name: str) -> Figure:
    (found,) = (figure for figure in outcome.figures if figure.name == name)
    return found


def test_the_effective_rank_of_equally_used_directions_is_their_number() -> None:
    vectors = np.tile(np.eye(8, 20, dtype=np.float32), (5, 1))
    assert label_free_health(vectors).effective_rank == pytest.approx(8, rel=1e-6)
    assert label_free_health(vectors[:8]).effective_rank == pytest.approx(8, rel=1e-6)  # fewer photos than dimensions


def test_the_effective_rank_weighs_singular_values_by_their_entropy() -> None:
    vectors = np.repeat(np.eye(2, dtype=np.float32), [9, 1], axis=0)  # singular values 3 and 1
    expected = math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert label_free_health(vectors).effective_rank == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shape", [(200, 40), (40, 200)])
def test_singular_values_and_effective_rank_are_those_of_a_decomposition(shape: tuple[int, int]) -> None:
    vectors = np.random.default_rng(0).standard_normal(shape) * np.logspace(0, -3, shape[1])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    singular = np.linalg.svd(unit, compute_uv=False)
    shares = singular / singular.sum()
    health = label_free_health(vectors.astype(np.float32))
    np.testing.assert_allclose(health.singular_values, singular, rtol=1e-3)
    assert health.effective_rank == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-4)


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
    zeros = np.zeros((5, 3), dtype=np.float32)
    outcome = evaluate_health(zeros, views_of(zeros, zeros))
    assert outcome.facts["collapsed"] == "yes"
    assert any("collapsed" in notice for notice in outcome.notices)
    assert [(figure.name, figure.value) for figure in outcome.figures] == [
        ("effective rank", 1.0),
        ("uniformity", 0.0),
        ("feature spread", 0.0),
        ("alignment", 0.0),
        ("relative alignment", 1.0),  # no nearer than other photos
        ("neighbor stability", 1.0),
    ]


def test_alignment_is_the_mean_squared_distance_of_unit_vectors() -> None:
    views = np.array([[2.0, 0.0], [0.0, 3.0]])
    assert alignment(views, views * 5) == pytest.approx(0)
    assert alignment(views, views[::-1]) == pytest.approx(2)
    assert alignment(views, -views) == pytest.approx(4)
    with pytest.raises(ValueError, match="one shape"):
        alignment(views, views[:1])


def test_relative_alignment_divides_by_the_distance_of_views_of_different_photos() -> None:
    first, second = random_vectors(0), random_vectors(0) + random_vectors(1) / 2
    a, b = (view / np.linalg.norm(view, axis=1, keepdims=True) for view in (first, second))
    others = np.mean([((x - y) ** 2).sum() for i, x in enumerate(a) for j, y in enumerate(b) if i != j])
    relative = figure(evaluate_health(random_vectors(2), views_of(first, second)), "relative alignment")
    assert relative.value == pytest.approx(alignment(first, second) / others, rel=1e-5)
    assert relative_alignment(views_of(first[:1], second[:1])).tolist() == [1.0]


def test_a_photo_counts_in_relative_alignment_by_what_it_changes() -> None:
    generator = np.random.default_rng(0)
    photos = generator.standard_normal((200, 6)) @ generator.standard_normal((6, 12)) + 2
    first, second = (photos + 0.7 * generator.standard_normal((200, 12)) for _ in range(2))
    views = views_of(first.astype(np.float32), second.astype(np.float32))
    numbers = relative_alignment(views)
    without = np.array([relative_alignment(views.only(np.delete(views.places, place))).mean() for place in range(200)])
    jackknife = 200 * numbers.mean() - 199 * without
    np.testing.assert_allclose(numbers, jackknife, atol=0.05 * numbers.std())


def test_vectors_that_only_lie_closer_together_are_aligned_no_better_relative_to_others() -> None:
    center = 30 * np.ones(8, dtype=np.float32)
    first, second = random_vectors(0, 400), random_vectors(0, 400) + random_vectors(1, 400)
    wide = evaluate_health(first, views_of(first, second))
    narrow = evaluate_health(first + center, views_of(first + center, second + center))
    assert figure(narrow, "alignment").value < 0.1 * figure(wide, "alignment").value
    assert figure(narrow, "relative alignment").value == pytest.approx(
        figure(wide, "relative alignment").value, rel=0.25
    )


@pytest.mark.parametrize("places", [list(range(40)), [3, 4, 17, 39]])
def test_stability_is_the_share_of_the_nearest_others_that_stay(places: list[int]) -> None:
    vectors = random_vectors(0)
    first, second = (vectors[places] + random_vectors(seed)[places] / 2 for seed in (1, 2))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = []
    for row, place in enumerate(places):
        others = [other for other in range(40) if other != place]
        nearest = [
            set(sorted(others, key=lambda other: -float(unit[other] @ seen))[:10])
            for seen in (unit[place], first[row], second[row])
        ]
        expected.append(np.mean([len(nearest[0] & after) / 10 for after in nearest[1:]]))
    assert 0 < np.mean(expected) < 1
    np.testing.assert_allclose(neighbor_stability(vectors, views_of(first, second, places)), expected)


def test_neighbors_stay_when_views_are_the_photos_and_are_left_to_chance_when_they_are_not() -> None:
    vectors = random_vectors(0, count=400)
    same = figure(evaluate_health(vectors, views_of(vectors, 3 * vectors)), "neighbor stability")
    unlike = evaluate_health(vectors, views_of(random_vectors(1, count=400), random_vectors(2, count=400)))
    assert (same.value, same.chance) == (1.0, 10 / 399)
    assert figure(unlike, "neighbor stability").value == pytest.approx(10 / 399, abs=0.01)


def test_copies_of_a_photo_leave_its_other_neighbors_countable() -> None:
    vectors = np.concatenate([np.repeat(random_vectors(0, count=1), 15, axis=0), random_vectors(1)])
    assert neighbor_stability(vectors, views_of(vectors, vectors)).tolist() == [1.0] * len(vectors)


def test_with_few_photos_all_others_are_neighbors_and_that_is_said() -> None:
    vectors = random_vectors(0, count=4)
    outcome = evaluate_health(vectors, views_of(random_vectors(1, count=4), random_vectors(2, count=4)))
    stability = figure(outcome, "neighbor stability")
    assert (stability.value, stability.chance, outcome.facts["neighbors"]) == (1.0, 1.0, 3)
    assert any("no more than 3 others" in notice for notice in outcome.notices)


@pytest.mark.parametrize("count", [2, 3, 11, 12, 60])
def test_turning_the_space_and_longer_vectors_change_no_figure(count: int) -> None:
    vectors, first, second = (random_vectors(seed, count, 5) for seed in range(3))
    turn = np.linalg.qr(random_vectors(3, 5, 5))[0]
    before = evaluate_health(vectors, views_of(vectors + first / 4, vectors + second / 4))
    after = evaluate_health(vectors @ turn * 7, views_of((vectors + first / 4) @ turn, (vectors + second / 4) @ turn))
    spread = ("feature spread",)  # a mean over the axes
    values = [[figure.value for figure in outcome.figures if figure.name not in spread] for outcome in (before, after)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-3, atol=1e-4)


def test_curves_show_the_singular_values_and_the_alignment_of_the_photos() -> None:
    vectors = np.repeat(np.eye(3, 6, dtype=np.float32), [100, 10, 1], axis=0)  # singular values 10, sqrt(10), 1
    places = [0, 1, 2, 3]
    views = views_of(vectors[places], np.stack([vectors[0], vectors[0], vectors[105], -vectors[0]]), places)
    spectrum, distances = evaluate_health(vectors, views).curves
    assert spectrum.log_x
    assert spectrum.x.tolist() == [1, 2, 3]
    np.testing.assert_allclose(spectrum.y, [0, -0.5, -1], atol=1e-6)
    assert np.interp([0, 1, 3, 4], distances.x, distances.y).tolist() == pytest.approx([1 / 3, 0.5, 5 / 6, 1], abs=0.01)


def test_the_photos_behind_the_figures_are_those_of_the_views() -> None:
    vectors = random_vectors(0)
    outcome = evaluate_health(vectors, views_of(vectors[5:9], vectors[5:9], [5, 6, 7, 8]))
    behind = {figure.name: len(figure.of_photos) for figure in outcome.figures if figure.of_photos is not None}
    assert behind == {"relative alignment": 4, "neighbor stability": 4}
    assert (outcome.facts["photos"], outcome.facts["augmented"]) == (40, 4)
    assert any("4 of the 40 photos" in notice for notice in outcome.notices)


def test_non_finite_vectors_and_a_single_photo_are_refused() -> None:
    broken = np.array([[1.0, 2.0], [np.nan, 0.0]], dtype=np.float32)
    sound = np.eye(2, dtype=np.float32)
    with pytest.raises(Unscorable, match="1 of 2"):
        label_free_health(broken)
    for views in (views_of(broken, sound), views_of(sound, broken)):
        with pytest.raises(Unscorable, match="1 of 2"):
            evaluate_health(sound, views)
    with pytest.raises(Unscorable, match="at least 2"):
        evaluate_health(sound[:1], views_of(sound[:1], sound[:1]))
