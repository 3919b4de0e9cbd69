"""Projected search is by the cosines of a PCA, whitened or not, that comes and goes without new vectors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generated_photos import DIM, batch, photo, vector

from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, Float32, SearchLevel, SearchSettings
from mocosearch_index.search.projection import Projection

QUERIES = np.stack([vector(b"query %d" % number) for number in range(5)])


def plain_projection(stored: Float32, vectors: Float32, dim: int, whiten: bool) -> Float32:
    """Project by an SVD; the signs of its axes are other ones, which no cosine minds."""
    mean = stored.mean(axis=0)
    _, deviations, axes = np.linalg.svd((stored - mean).astype(np.float64), full_matrices=False)
    projected = (vectors - mean) @ axes[:dim].T
    if whiten:
        projected /= deviations[:dim]
    return (projected / np.linalg.norm(projected, axis=1, keepdims=True)).astype(np.float32)


def set_search(index: ImageIndex, wanted: SearchSettings) -> None:
    index.set_settings(replace(index.settings, search=wanted))
    index.save_search_file()


def uneven(number: int) -> list[EmbeddedPhoto]:
    """Photos whose vectors vary in some directions much more than in others, about a mean far from zero."""
    scale = np.linspace(2, 0.1, DIM)
    photos = batch(number, 1200)
    return [replace(one, vector=(one.vector * scale + 0.3).astype(np.float32)) for one in photos]


@pytest.mark.parametrize("level", ["exact", "ivf", "compressed"])
@pytest.mark.parametrize(("dim", "whiten"), [(8, False), (8, True), (None, True), (DIM, False)])
def test_scores_are_cosines_of_the_projected_vectors(
    index: ImageIndex, level: SearchLevel, dim: int | None, whiten: bool
) -> None:
    index.commit(uneven(0))
    set_search(index, SearchSettings(level, dim, whiten))
    report = index.search_report()
    assert (report.level, report.dim) == (level, dim or DIM)
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


def test_too_few_photos_are_searched_as_they_are_until_there_are_more(index: ImageIndex) -> None:
    index.commit(batch(0, 5))
    set_search(index, SearchSettings(dim=8))
    assert index.search_report().dim == DIM
    index.commit(batch(1, 100))
    index.save_search_file()
    assert index.search_report().dim == 8


def test_directions_in_which_nothing_varies_are_not_blown_up() -> None:
    vectors = np.zeros((500, DIM), np.float32)
    vectors[:, :3] = np.random.default_rng(0).standard_normal((500, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    projection = Projection.fit(vectors, SearchSettings(whiten=True))
    assert projection is not None
    projected = projection.apply(vectors)
    assert np.isfinite(projected).all()
    assert np.abs(np.linalg.norm(projected, axis=1) - 1).max() < 1e-4
    mean = vectors.mean(axis=0, keepdims=True)
    assert np.isfinite(projection.apply(mean)).all()
    assert np.isfinite(projection.apply(np.zeros((2, DIM), np.float16))).all()
