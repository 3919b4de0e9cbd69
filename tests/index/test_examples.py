"""A query of several examples is put together where photos are compared."""

from dataclasses import replace

import numpy as np
import pytest
from generated_photos import DIM, batch, vector
from projected import QUERIES, crowded, plain_projection, set_search, uneven

from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import SearchLevel, SearchSettings


@pytest.mark.parametrize("level", ["exact", "ivf", "compressed"])
@pytest.mark.parametrize("whiten", [False, True])
def test_several_examples_are_combined_where_photos_are_compared(
    index: ImageIndex, level: SearchLevel, whiten: bool
) -> None:
    index.commit(uneven(0))
    set_search(index, SearchSettings(level, whiten=whiten))
    ids, stored = index.all_vectors()
    floats = stored.astype(np.float32)
    like, unlike = floats[:3], floats[3:5]
    both = plain_projection(floats, floats, DIM, whiten=True) if whiten else floats
    wanted = both[:3].mean(axis=0) - both[3:5].mean(axis=0)
    scores = both @ wanted / np.linalg.norm(wanted)
    hits = index.search_by_examples(like * 7, unlike, 10)
    assert all(score == pytest.approx(scores[ids.tolist().index(photo_id)], abs=5e-3) for photo_id, score in hits)
    best = set(ids[np.argsort(-scores)[:10]].tolist())
    assert len(best & {photo_id for photo_id, _ in hits}) >= (10 if level == "exact" else 8)


@pytest.mark.parametrize("whiten", [False, True])
def test_nothing_is_found_where_examples_cancel_out(index: ImageIndex, whiten: bool) -> None:
    index.commit([replace(one, vector=crowded(one.vector[None])[0]) for one in batch(0, 100)])
    set_search(index, SearchSettings(whiten=whiten))
    like = crowded(vector(b"one")[None])
    as_stored, nothing = like.astype(np.float16).astype(np.float32), np.zeros((1, DIM), np.float32)
    assert index.search_by_examples(like, as_stored, 5) == []
    assert index.search_by_examples(nothing, nothing[:0], 5) == []
    assert index.search_by_examples(nothing, nothing, 5) == []
    alone = index.search_by_examples(like, nothing[:0], 5)
    assert len(alone) == 5
    assert index.search_by_examples(np.concatenate([like, nothing]), nothing, 5) == [
        (photo_id, pytest.approx(score, abs=1e-5)) for photo_id, score in alone
    ]


@pytest.mark.parametrize(
    ("like", "unlike", "k"),
    [(0, 1, 1), (1, 0, 0), (np.full((1, DIM), np.nan), 0, 1), (np.ones((1, DIM - 1)), 0, 1), (np.ones(DIM), 0, 1)],
)
def test_what_is_no_example_is_refused(index: ImageIndex, like: int | np.ndarray, unlike: int, k: int) -> None:
    wanted, unwanted = (
        np.ones((rows, DIM), np.float32) if isinstance(rows, int) else rows.astype(np.float32)
        for rows in (like, unlike)
    )
    index.commit(batch(0, 3))
    with pytest.raises(ValueError, match=r"example|numbers|finite|at least 1"):
        index.search_by_examples(wanted, unwanted, k)


def test_one_example_finds_what_it_finds_as_a_query(index: ImageIndex) -> None:
    index.commit(uneven(0)[:300])
    for query in QUERIES:
        by_example = index.search_by_examples(query[None], query[None][:0], 20)
        [by_query] = index.search(query[None], 20)
        assert [score for _, score in by_example] == pytest.approx([score for _, score in by_query], abs=2e-3)
