"""Which searches a report shows: of many classes, and both those that go well and those that do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch.evaluation.examples import pick_examples
from mocosearch.evaluation.neighbors import Neighbors


def neighbors(count: int, k: int = 3) -> Neighbors:
    """Neighbors that tell whose they are: those of row r are 10r, 10r + 1, ..."""
    indices = 10 * np.arange(count)[:, None] + np.arange(k)
    return Neighbors(indices, indices.astype(np.float32))


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=60))
def test_eight_queries_half_of_them_with_misses_as_far_as_there_are(rows: list[tuple[int, bool]]) -> None:
    groups = np.array([group for group, _ in rows], dtype=np.int64)
    hits = np.ones((len(rows), 3), dtype=np.bool_)
    hits[:, 1] = [flawless for _, flawless in rows]
    places = 7 * np.arange(len(rows))
    picked = pick_examples(places, neighbors(len(rows)), hits, groups)
    chosen = picked.queries // 7
    assert picked.queries.tolist() == sorted(set(picked.queries.tolist()))
    assert np.array_equal(picked.neighbors, neighbors(len(rows)).indices[chosen])
    assert np.array_equal(picked.scores, neighbors(len(rows)).scores[chosen])
    assert np.array_equal(picked.hits, hits[chosen])
    flawless = int(hits.all(axis=1).sum())
    missing = len(rows) - flawless
    shown = int(picked.hits.all(axis=1).sum())
    assert len(chosen) == min(8, len(rows))
    assert shown == min(flawless, max(4, 8 - missing))


@pytest.mark.parametrize(("classes", "shown"), [(3, 3), (8, 8), (50, 8)])
def test_they_are_of_as_many_classes_as_can_be(classes: int, shown: int) -> None:
    groups = np.repeat(np.arange(classes), 20)
    hits = np.ones((len(groups), 3), dtype=np.bool_)
    hits[::2] = False
    picked = pick_examples(np.arange(len(groups)), neighbors(len(groups)), hits, groups)
    counts = np.bincount(groups[picked.queries], minlength=classes)
    assert np.count_nonzero(counts) == shown
    assert counts.max() - counts[counts > 0].min() <= 1


def test_the_same_figures_show_the_same_queries_and_not_just_the_first() -> None:
    groups = np.zeros(1000, dtype=np.int64)
    hits = np.random.default_rng(0).random((1000, 3)) < 0.8
    first, again = (pick_examples(np.arange(1000), neighbors(1000), hits, groups) for _ in range(2))
    assert np.array_equal(first.queries, again.queries)
    assert first.queries.max() > 500
