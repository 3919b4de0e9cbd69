"""Which photos are learned from and which are scored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch.errors import Unscorable
from mocosearch.evaluation.split import stratified_split, train_and_test


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


def test_a_test_part_that_is_given_is_taken_whatever_the_seed_and_the_classes() -> None:
    train, test = train_and_test(np.array([0, 0, 1]), np.array([True, False, True]), seed=5)
    assert (train.tolist(), test.tolist()) == ([1], [0, 2])


@pytest.mark.parametrize("everything", [False, True])
def test_a_test_part_of_nothing_or_everything_is_refused(everything: bool) -> None:
    with pytest.raises(Unscorable, match="put photos into both"):
        train_and_test(np.array([0, 1, 1]), np.full(3, everything), seed=0)


def test_without_a_test_part_a_fifth_of_each_class_is_scored() -> None:
    labels = np.repeat([0, 1], [50, 10])
    train, test = train_and_test(labels, None, seed=0)
    assert np.bincount(labels[test]).tolist() == [10, 2]
    assert sorted([*train, *test]) == list(range(60))
