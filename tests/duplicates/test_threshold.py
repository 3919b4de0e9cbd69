"""The rule: the lowest likeness of a copy at which enough of the pairs would be right."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch.duplicates.threshold import (
    COPIES,
    PRECISION,
    DifferentPhotos,
    choose,
    false_pairs_that_matter,
)

scores = st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=30)


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_scores_apart_give_the_lowest_copy() -> None:
    chosen = choose({"a": array(0.9, 0.8), "b": array(0.7, 0.95)}, DifferentPhotos([0.5, 0.4], 500, False))
    assert chosen.likeness == pytest.approx(0.7)
    assert (chosen.recall, chosen.recall_by_kind) == (1.0, {"a": 1.0, "b": 1.0})
    assert PRECISION <= chosen.precision < 1  # what a sample has not shown can still be
    assert chosen.tells


def test_copies_below_too_many_different_photos_are_given_up() -> None:
    different = DifferentPhotos([0.75] * 20, 500, False)
    chosen = choose({"a": array(0.9, 0.8), "b": array(0.7, 0.6)}, different)
    assert chosen.likeness == pytest.approx(0.8)
    assert (chosen.recall, chosen.recall_by_kind) == (0.5, {"a": 1.0, "b": 0.0})


def test_an_encoder_for_which_all_photos_are_the_same_is_told() -> None:
    chosen = choose({"a": array(*[0.99] * 10)}, DifferentPhotos([1.0] * 100, 100, True))
    assert (chosen.likeness, chosen.recall, chosen.tells) == (None, 0.0, False)


def test_half_of_the_copies_must_be_found() -> None:
    copies = array(0.9, 0.9, 0.9, *[0.1] * 7)
    chosen = choose({"a": copies}, DifferentPhotos([0.5] * 2 + [0.3] * 50, 1000, False))
    assert chosen.likeness == pytest.approx(0.9)
    assert not chosen.tells


@given(copies=scores, different=scores, photos=st.integers(1, 300), all_of_them=st.booleans())
def test_the_stated_figures_are_those_at_the_likeness(
    copies: list[float], different: list[float], photos: int, all_of_them: bool
) -> None:
    chosen = choose({"a": array(*copies)}, DifferentPhotos(different, photos, all_of_them))
    if chosen.likeness is None:
        return
    right = sum(score >= chosen.likeness for score in array(*copies).tolist()) / len(copies)
    wrong = (sum(score >= chosen.likeness for score in different) + (not all_of_them)) / photos
    assert chosen.recall == pytest.approx(right)
    assert chosen.precision == pytest.approx(COPIES * right / (COPIES * right + wrong / 2))
    assert chosen.precision >= PRECISION
    assert chosen.likeness in array(*copies).tolist()


@pytest.mark.parametrize("photos", [1, 20, 200, 500])
def test_no_threshold_stands_more_false_pairs_than_those_that_matter(photos: int) -> None:
    enough = false_pairs_that_matter(photos)
    assert choose({"a": array(0.5)}, DifferentPhotos([0.6] * enough, photos, True)).likeness is None
    if enough > 1:
        assert choose({"a": array(0.5)}, DifferentPhotos([0.6] * (enough - 1), photos, True)).likeness is not None
