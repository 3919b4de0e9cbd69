"""Intervals hold the truth about as often as they say, and luck with a few photos decides nothing."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from mocosearch.evaluation.intervals import difference_intervals, interval_of, intervals_of, wilson_interval

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]  # (simulations, photos)


def sparse(generator: np.random.Generator, size: tuple[int, int]) -> Floats:
    """Two classifiers that disagree on 4% of the photos."""
    return generator.choice([-1.0, 0.0, 1.0], p=[0.02, 0.96, 0.02], size=size)


def dense(generator: np.random.Generator, size: tuple[int, int]) -> Floats:
    """Two classifiers that disagree on 30%."""
    return generator.choice([-1.0, 0.0, 1.0], p=[0.15, 0.7, 0.15], size=size)


def tens(generator: np.random.Generator, size: tuple[int, int]) -> Floats:
    """A difference of two precisions@10."""
    return (generator.binomial(10, 0.8, size) - generator.binomial(10, 0.8, size)) / 10


def skewed(generator: np.random.Generator, size: tuple[int, int]) -> Floats:
    """Most photos a little worse, a few much better."""
    return generator.exponential(0.1, size) - 0.1


@pytest.mark.parametrize("photos", [4, 30, 300])
@pytest.mark.parametrize("draw", [sparse, dense, tens, skewed])
def test_encoders_that_are_equally_good_are_seldom_told_apart(draw: Draw, photos: int) -> None:
    simulated = list(draw(np.random.default_rng(0), (300, photos)))
    decided = [not low <= 0 <= high for low, high in difference_intervals(simulated)]
    assert np.mean(decided) <= 0.075  # .05 and three standard errors of 300 simulations, less one


def test_intervals_of_differences_hold_the_true_difference_and_are_not_wider_than_they_must_be() -> None:
    differences = 0.03 + tens(np.random.default_rng(1), (400, 200))
    intervals = np.array(difference_intervals(list(differences)))
    held = np.mean((intervals[:, 0] <= 0.03) & (intervals[:, 1] >= 0.03))
    assert 0.92 <= held <= 0.985
    textbook = 2 * 1.96 * differences.std() / np.sqrt(200)
    assert np.mean(intervals[:, 1] - intervals[:, 0]) == pytest.approx(textbook, rel=0.08)


@pytest.mark.parametrize("photos", [50, 400])
def test_intervals_of_figures_hold_the_true_figure(photos: int) -> None:
    generator = np.random.default_rng(2)
    precisions = generator.binomial(10, 0.7, (400, photos)) / 10
    average_precisions = generator.beta(0.8, 0.4, (400, photos))
    for values, truth in ((precisions, 0.7), (average_precisions, 2 / 3)):
        intervals = [interval for interval in intervals_of(list(values)) if interval]
        held = np.mean([low <= truth <= high for low, high in intervals])
        assert len(intervals) == 400
        assert 0.91 <= held <= 0.985


def test_the_bootstrap_is_that_of_scipy() -> None:
    values = np.random.default_rng(3).exponential(size=60)
    reference = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    interval = interval_of(values)
    assert interval is not None
    assert interval == pytest.approx((reference.low, reference.high), abs=0.1 * values.std() / np.sqrt(60))


def test_a_share_has_wilson_s_interval_also_where_all_photos_agree() -> None:
    assert interval_of(np.array([1.0, 0.0, 1.0, 1.0])) == wilson_interval(0.75, 4)
    low, high = interval_of(np.ones(20)) or (0.0, 0.0)
    assert (0.8 < low < 1, high) == (True, 1.0)
    for share, count in ((0.0, 7), (0.25, 40), (1.0, 300)):
        reference = stats.binomtest(round(share * count), count).proportion_ci(method="wilson")
        assert wilson_interval(share, count) == pytest.approx((reference.low, reference.high))


def test_one_photo_with_a_number_that_is_no_share_says_nothing() -> None:
    assert interval_of(np.array([0.5])) is None
    assert interval_of(np.array([1.0])) == wilson_interval(1, 1)
    ((low, high),) = difference_intervals([np.array([0.5])])
    assert low < 0 < high


@pytest.mark.parametrize("better", [1, -1])
def test_it_takes_more_than_a_few_photos_to_decide(better: int) -> None:
    def decides(differing: int, photos: int) -> bool:
        differences = np.zeros(photos)
        differences[:differing] = better
        ((low, high),) = difference_intervals([differences])
        return not low <= 0 <= high

    # By McNemar's exact test 6 photos that all speak for one encoder are enough, and 5 are not.
    assert [decides(differing, 1000) for differing in (1, 4, 8)] == [False, False, True]
    assert [decides(3, 3), decides(8, 8)] == [False, True]


@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(st.integers(-50, 50), min_size=2, max_size=40),
    factor=st.sampled_from((0.125, 0.5, 2.0, 64.0)),
    seed=st.integers(0, 2**32),
)
def test_intervals_scale_with_the_differences_and_turn_with_their_sign(
    values: list[int], factor: float, seed: int
) -> None:
    differences = np.array(values, dtype=np.float64)
    (low, high), scaled, turned = difference_intervals([differences, factor * differences, -differences], seed)
    assert low <= high
    assert scaled == pytest.approx((factor * low, factor * high), abs=1e-12)
    assert turned == pytest.approx((-high, -low), abs=1e-12)


def test_equal_encoders_have_an_interval_of_nothing() -> None:
    assert difference_intervals([np.zeros(100), np.zeros(1)]) == [(0.0, 0.0), (0.0, 0.0)]


def test_intervals_are_a_function_of_numbers_and_seed_and_not_of_what_else_is_asked() -> None:
    generator = np.random.default_rng(4)
    short, long, shares = generator.random(30), generator.random(50), generator.integers(0, 2, 30).astype(float)
    together = intervals_of([long, shares, short, short * 2])
    alone = [interval_of(column) for column in (long, shares, short, short * 2)]
    np.testing.assert_allclose(np.array(together), np.array(alone), rtol=1e-12)
    assert interval_of(short) == interval_of(short, seed=0) != interval_of(short, seed=1)


@pytest.mark.parametrize("column", [np.array([0.5, np.nan]), np.array([]), np.ones((2, 2))])
def test_what_is_no_list_of_finite_numbers_is_refused(column: Floats) -> None:
    with pytest.raises(ValueError, match="finite number"):
        interval_of(column)
    with pytest.raises(ValueError, match="finite number"):
        difference_intervals([column])
