"""Tuning knows what exact search finds, and visits as many cells as the recall that is wanted takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch_index.records import Float32
from mocosearch_index.search.tuning import NEIGHBORS, Truth, choose_cells, without_own


def clustered(count: int, dim: int = 16) -> Float32:
    dice = np.random.default_rng(3)
    centers = dice.standard_normal((30, dim))
    vectors = centers[dice.integers(0, 30, count)] + 0.7 * dice.standard_normal((count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


VECTORS = clustered(2000)
IDS = np.random.default_rng(4).permutation(np.arange(10_000, 12_000))
PLACES = np.arange(0, 2000, 20)


def truth(block: int) -> Truth:
    blocks = ((slice(start, start + block), VECTORS[start : start + block]) for start in range(0, 2000, block))
    return Truth.of(VECTORS[PLACES], IDS[PLACES], IDS, blocks)


@pytest.mark.parametrize("block", [7, 300, 2000])
def test_the_truth_is_the_nearest_others_however_the_vectors_come(block: int) -> None:
    scores = VECTORS[PLACES] @ VECTORS.T
    scores[np.arange(len(PLACES)), PLACES] = -2
    best = np.argsort(-scores, axis=1)[:, :NEIGHBORS]
    found = truth(block)
    assert np.array_equal(np.sort(found.ids), np.sort(IDS[best]))
    assert np.allclose(found.scores, np.take_along_axis(scores, best, 1), atol=1e-5)


def test_recall_is_the_share_that_was_found() -> None:
    right = truth(2000)
    assert right.recall(right.ids, right.scores) == 1
    wrong = right.ids.copy()
    wrong[:, ::2] = 1
    low = right.scores.copy()
    low[:, ::2] = -1
    assert right.recall(wrong, low) == 0.5
    assert right.recall(wrong, right.scores) == 1  # others, but just as near
    assert right.recall(np.full_like(wrong, -1), np.full_like(low, -np.inf)) == 0


@given(st.integers(0, 11))
def test_the_query_itself_is_left_out_or_else_the_last(place: int) -> None:
    ids = np.arange(1, 12)[None]
    scores = np.linspace(1, 0, 11, dtype=np.float32)[None]
    own = np.array([place])
    left, left_scores = without_own(ids, scores, own)
    expected = [number for number in range(1, 12) if number != place][:10]
    assert left.tolist() == [expected]
    assert left_scores.tolist() == [[scores[0, number - 1] for number in expected]]


@pytest.mark.parametrize("target", [0.8, 0.95, 0.99])
def test_the_cells_that_are_visited_hold_what_is_wanted_and_no_more(target: float) -> None:
    found = truth(2000)
    place_of = dict(zip(IDS.tolist(), range(2000), strict=True))
    neighbors = VECTORS[[[place_of[photo_id] for photo_id in row] for row in found.ids.tolist()]]
    centroids, visited = choose_cells(VECTORS, VECTORS[PLACES], neighbors, 2000, target)
    assert np.allclose(np.linalg.norm(centroids, axis=1), 1, atol=1e-4)

    def share(cells: int) -> float:
        order = np.argsort(-(VECTORS[PLACES] @ centroids.T), axis=1)[:, :cells]
        own = (neighbors @ centroids.T).argmax(axis=2)
        return float((own[:, :, None] == order[:, None, :]).any(axis=2).mean())

    assert share(visited) >= target
    assert visited == 1 or share(visited - 1) < target
