"""Projected search is by the cosines of a PCA, whitened or not, that comes and goes without new vectors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generated_photos import DIM, batch, photo, vector
from hypothesis import given, settings
from hypothesis import strategies as st
from projected import QUERIES, crowded, plain_projection, set_search, uneven

from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import Float32, SearchLevel, SearchSettings
from mocosearch_index.search.projection import Projection


@pytest.mark.parametrize("level", ["exact", "ivf", "compressed"])
@pytest.mark.parametrize(("dim", "whiten"), [(8, False), (8, True), (None, True), (DIM, False)])
def test_scores_are_cosines_of_the_projected_vectors(
    index: ImageIndex, level: SearchLevel, dim: int | None, whiten: bool
) -> None:
    index.commit(uneven(0))
    set_search(index, SearchSettings(level, dim, whiten))
    report = index.search_report()
    assert (report.level, report.dim, report.whitened) == (level, dim or DIM, whiten)
    ids, stored = index.all_vectors()
    floats = stored.astype(np.float32)
    both = np.concatenate([floats, QUERIES])
    projected = plain_projection(floats, both, dim or DIM, whiten)
    scores = projected[len(ids) :] @ projected[: len(ids)].T
    right = 0
    for query, hits in enumerate(index.search(QUERIES, 10)):
        best = set(ids[np.argsort(-scores[query])[:10]].tolist())
        right += len(best & {photo_id for photo_id, _ in hits})
        assert all(abs(score - scores[query, ids.tolist().index(photo_id)]) < 5e-3 for photo_id, score in hits)
    assert right >= (48 if level == "exact" else 40)  # of 50; the queries are unlike the photos


def test_it_is_changed_and_taken_back_without_touching_a_vector(folder: Path, index: ImageIndex) -> None:
    index.commit(batch(0, 300))
    before = (folder / "vectors-000001.f16").read_bytes()
    plain = index.search(QUERIES, 10)
    set_search(index, SearchSettings(dim=4))
    narrow = index.search(QUERIES, 10)
    assert narrow != plain
    with ImageIndex.open(folder) as reader:
        assert reader.search(QUERIES, 10) == narrow
    set_search(index, SearchSettings(whiten=False))
    assert index.search(QUERIES, 10) != plain
    set_search(index, SearchSettings())
    assert index.search(QUERIES, 10) == plain
    assert (folder / "vectors-000001.f16").read_bytes() == before


def test_photos_added_later_are_found_through_it(index: ImageIndex) -> None:
    index.commit(batch(0, 300))
    set_search(index, SearchSettings(dim=12, whiten=True))
    index.commit([photo(b"later.jpg")])
    [[(photo_id, score)]] = index.search(vector(b"later.jpg")[None], 1)
    assert index.photo(photo_id).path == b"later.jpg"
    assert score > 0.99


def test_up_to_49_photos_scores_are_cosines_and_from_50_on_they_are_whitened_ones(index: ImageIndex) -> None:
    index.commit(uneven(0)[:40])
    index.save_search_file()
    index.commit(uneven(0)[40:49])
    index.save_search_file()
    [[(nearest, score)]] = index.search(QUERIES[:1], 1)
    assert not index.search_report().whitened
    assert score == pytest.approx(float(index.vectors([nearest])[0] @ QUERIES[0]), abs=1e-3)
    index.commit(uneven(0)[49:50])
    index.save_search_file()
    assert index.search_report().whitened
    assert index.search(QUERIES[:1], 1)[0][0][1] < score


def test_vectors_are_searched_with_few_numbers_once_there_are_as_many_photos(index: ImageIndex) -> None:
    set_search(index, SearchSettings(dim=20))
    index.commit(batch(0, 49))
    index.save_search_file()
    assert index.search_report().dim == DIM
    index.commit(batch(1, 1))
    index.save_search_file()
    assert index.search_report().dim == 20


@pytest.mark.parametrize("count", [60, 1100])
def test_photos_that_are_all_the_same_find_each_other(index: ImageIndex, count: int) -> None:
    index.commit([replace(one, vector=vector(b"the one")) for one in batch(0, count)])
    set_search(index, SearchSettings("ivf"))
    [hits] = index.search(vector(b"the one")[None], count)
    assert len(hits) == count
    assert [score for _, score in hits] == pytest.approx([1] * count, abs=1e-3)


def test_fewer_photos_than_numbers_give_a_projection_of_all_numbers() -> None:
    vectors = np.random.default_rng(0).standard_normal((50, 128)).astype(np.float32) + 1
    projection = Projection.fit(vectors, SearchSettings())
    assert projection is not None
    assert projection.dim == 128
    scores = projection.apply(vectors) @ projection.apply(vectors).T
    assert np.allclose(np.diag(scores), 1, atol=1e-5)
    assert abs(scores.mean()) < 0.05
    assert Projection.fit(vectors, SearchSettings(dim=51)) is None


def test_unlike_photos_of_a_crowded_encoder_come_near_zero() -> None:
    vectors = crowded(np.random.default_rng(1).standard_normal((400, DIM)))
    projection = Projection.fit(vectors, SearchSettings())
    assert projection is not None
    projected = projection.apply(vectors)
    assert (vectors @ vectors.T).min() > 0.9
    assert abs(np.median(projected @ projected.T)) < 0.05


def whitened_scores(vectors: Float32) -> Float32:
    projection = Projection.fit(vectors, SearchSettings())
    assert projection is not None
    rows = projection.apply(vectors)
    return rows @ rows.T


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(50, 90), length=st.floats(0.1, 3))
def test_neither_a_rotation_nor_a_shift_nor_a_scale_of_all_vectors_changes_a_score(
    seed: int, count: int, length: float
) -> None:
    dice = np.random.default_rng(seed)
    uneven_rows = dice.standard_normal((count, 12)) * np.linspace(1, 0.1, 12)
    vectors = (uneven_rows + dice.standard_normal(12)).astype(np.float32)
    rotation, _ = np.linalg.qr(dice.standard_normal((12, 12)))
    scores = whitened_scores(vectors)
    for others in (vectors @ rotation, vectors + dice.standard_normal(12), vectors * length):
        assert np.allclose(whitened_scores(others.astype(np.float32)), scores, atol=2e-3)
    assert np.array_equal(whitened_scores(vectors), scores)


def test_what_was_learned_stays_as_photos_come_until_there_are_twice_as_many(folder: Path, index: ImageIndex) -> None:
    index.commit(uneven(0)[:300])
    index.save_search_file()
    before = dict(index.search(QUERIES[:1], 300)[0])
    for number in (1, 2):
        index.close()
        index = ImageIndex.open(folder, writable=True)
        index.commit(batch(number, 200))
        index.save_search_file()
        after = dict(index.search(QUERIES[:1], 700)[0])
        same = [after[photo_id] == pytest.approx(score, abs=1e-5) for photo_id, score in before.items()]
        assert all(same) == (number == 1)
    index.close()


def test_directions_in_which_nothing_varies_are_not_blown_up() -> None:
    vectors = np.zeros((500, DIM), np.float32)
    vectors[:, :3] = np.random.default_rng(0).standard_normal((500, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    projection = Projection.fit(vectors, SearchSettings())
    assert projection is not None
    projected = projection.apply(vectors)
    assert np.isfinite(projected).all()
    assert np.abs(np.linalg.norm(projected, axis=1) - 1).max() < 1e-4
    mean = vectors.mean(axis=0, keepdims=True)
    assert np.isfinite(projection.apply(mean)).all()
    assert np.isfinite(projection.apply(np.zeros((2, DIM), np.float16))).all()
