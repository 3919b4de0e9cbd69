"""Nearest photos by cosine against plain sorting in float64: blocks, parts, ties and degenerate vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.neighbors import leave_one_out, nearest

FOUR = np.array([[1, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]], dtype=np.float32)


def plainly_sorted(vectors: NDArray[np.floating], query: int, gallery: list[int]) -> list[tuple[float, int]]:
    """The gallery without the query as (cosine, place), best first: the definition, in float64."""
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    others = [(float(unit[query] @ unit[place]), place) for place in gallery if place != query]
    return sorted(others, key=lambda pair: (-pair[0], pair[1]))


def test_a_set_larger_than_one_block_is_searched_whole() -> None:
    vectors = np.random.default_rng(0).standard_normal((4500, 8)).astype(np.float32)
    found = leave_one_out(vectors, 3)
    for own in (0, 1, 3000, 3728, 4499):  # a block has 3,728 rows
        expected = plainly_sorted(vectors, own, list(range(4500)))[:3]
        assert found.indices[own].tolist() == [place for _, place in expected]
        assert found.scores[own] == pytest.approx([cosine for cosine, _ in expected], abs=1e-6)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=3, max_size=30), st.integers(1, 40))
def test_queries_find_what_the_gallery_holds_and_never_themselves(roles: list[tuple[bool, bool]], k: int) -> None:
    vectors = np.random.default_rng(len(roles)).standard_normal((len(roles), 5))
    queries = [place for place, (asked, _) in enumerate(roles) if asked]
    gallery = [place for place, (_, searched) in enumerate(roles) if searched]
    least = min((len(plainly_sorted(vectors, query, gallery)) for query in queries), default=len(gallery))
    if least == 0:
        with pytest.raises(Unscorable, match="at least 2"):
            nearest(vectors, np.array(queries, dtype=np.int64), np.array(gallery, dtype=np.int64), k)
        return
    found = nearest(vectors, np.array(queries, dtype=np.int64), np.array(gallery, dtype=np.int64), k)
    assert found.indices.shape == found.scores.shape == (len(queries), min(k, least))
    for query, places in zip(queries, found.indices.tolist(), strict=True):
        assert places == [place for _, place in plainly_sorted(vectors, query, gallery)[: len(places)]]


def test_length_of_a_vector_does_not_matter() -> None:
    lengths = np.array([[1e-30], [1e30], [3], [0.25]], dtype=np.float32)  # squares of which float32 cannot hold
    assert np.array_equal(leave_one_out(FOUR * lengths, 3).indices, leave_one_out(FOUR, 3).indices)


def test_k_beyond_the_set_means_all_others() -> None:
    assert leave_one_out(FOUR, 100).indices.shape == (4, 3)
    assert nearest(FOUR, np.array([0]), np.array([1, 2, 3]), 100).indices.tolist() == [[1, 2, 3]]


def test_equal_neighbors_come_by_place() -> None:
    same = np.ones((9, 4), dtype=np.float32)
    assert leave_one_out(same, 3).indices[[0, 1, 8]].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 2]]
    assert nearest(same, np.array([4]), np.array([2, 4, 7, 8]), 2).indices.tolist() == [[2, 7]]


def test_a_few_ties_for_the_last_place_are_broken_by_place() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 0], [1, 0], [0, -1]], dtype=np.float32)
    found = leave_one_out(vectors, 4)
    assert found.indices[0].tolist() == [2, 4, 5, 1]
    assert found.indices[1].tolist() == [3, 0, 2, 4]
    assert found.indices[6].tolist() == [0, 2, 4, 5]


def test_a_zero_vector_is_like_nothing_and_breaks_nothing() -> None:
    vectors = np.vstack([FOUR, np.zeros((1, 2), dtype=np.float32)])
    assert leave_one_out(vectors, 4).scores[4].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_refused(bad: float) -> None:
    vectors = FOUR.copy()
    vectors[2, 1] = bad
    with pytest.raises(Unscorable, match="1 of 4 vectors"):
        leave_one_out(vectors, 1)


def test_no_neighbors_is_an_error_and_so_is_none_asked_for() -> None:
    with pytest.raises(Unscorable, match="at least 2"):
        leave_one_out(FOUR[:1], 1)
    with pytest.raises(Unscorable, match="at least 2"):
        nearest(FOUR, np.array([0]), np.array([], dtype=np.int64), 1)
    with pytest.raises(ValueError, match="k must"):
        leave_one_out(FOUR, 0)
