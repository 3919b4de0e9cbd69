"""Which photos are selected, found and told, and in which order."""

from dataclasses import replace

import numpy as np
import pytest
from generated_photos import CAT, DIM, DOG, ELK, batch, broken, id_of, photo, vector

from mocosearch_index.errors import UnknownPhoto
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import (
    EmbeddedPhoto,
    IndexSettings,
    PhotoFilter,
    SearchSettings,
)


def dated(path: bytes, taken_at: str | None) -> EmbeddedPhoto:
    return replace(photo(path), taken_at=taken_at)


FILTERED = {
    b"a.jpg": None,
    b"2021/a.jpg": "2021-06-05T04:03:02",
    b"2021/trip/b.jpg": "2021-12-31T23:59:59",
    b"2021-copy/a.jpg": "2021-06-05T04:03:02",
    b"2021.jpg": "2022-01-01T00:00:00",
    b"2O21/%_.jpg": None,
    b"\xff/\xff.jpg": "2020-01-01T00:00:00",
}


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        (PhotoFilter(folder=b"2021"), {b"2021/a.jpg", b"2021/trip/b.jpg"}),
        (PhotoFilter(folder=b"2021/trip"), {b"2021/trip/b.jpg"}),
        (PhotoFilter(folder=b"2021/TRIP"), set()),
        (PhotoFilter(folder=b"20%"), set()),
        (PhotoFilter(folder=b"\xff"), {b"\xff/\xff.jpg"}),
        (PhotoFilter(folder=b"", exclude=frozenset([1])), FILTERED.keys() - {b"a.jpg"}),
        (PhotoFilter(taken_from="2021-12-31T23:59:59"), {b"2021/trip/b.jpg", b"2021.jpg"}),
        (PhotoFilter(taken_until="2021-06-05T04:03:02", folder=b"2021"), {b"2021/a.jpg"}),
        (PhotoFilter(ids=frozenset([2, 3, 8, 999])), {b"2021/a.jpg", b"2021/trip/b.jpg"}),
        (PhotoFilter(ids=frozenset([2, 3]), exclude=frozenset([3, 77])), {b"2021/a.jpg"}),
        (PhotoFilter(ids=frozenset()), set()),
    ],
)
def test_a_filter_selects_indexed_photos(index: ImageIndex, where: PhotoFilter, paths: set[bytes]) -> None:
    index.commit([dated(*pair) for pair in FILTERED.items()], [broken(b"2021/broken.jpg")])
    index.commit([photo(b"2021/gone.jpg")])
    index.commit(missing=[id_of(index, b"2021/gone.jpg")])
    ids = index.select(where)
    assert ids is not None
    assert {index.photo(int(photo_id)).path for photo_id in ids} == paths
    assert ids.tolist() == sorted(ids.tolist())


def test_the_ids_are_those_of_indexed_photos_in_their_order(index: ImageIndex) -> None:
    assert index.ids().dtype == np.int64
    assert index.ids().tolist() == []
    index.commit([photo(ELK), photo(CAT)], [broken(DOG)])
    index.commit([photo(b"bee.jpg")], missing=[id_of(index, CAT)])
    assert index.ids().tolist() == [id_of(index, ELK), id_of(index, b"bee.jpg")]


def test_a_filter_that_lets_all_pass_selects_nothing_in_particular(index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    assert index.select(PhotoFilter()) is None
    assert index.select(PhotoFilter(min_score=0.5, folder=b"")) is None


def test_many_photos_come_by_their_ids_without_those_that_are_not_known(index: ImageIndex) -> None:
    index.commit([photo(CAT), photo(DOG)], [broken(ELK)])
    cat, elk = index.photo(id_of(index, CAT)), index.photo(id_of(index, ELK))
    assert index.photos_of([elk.id, 999, cat.id, np.int64(cat.id)]) == {cat.id: cat, elk.id: elk}
    assert index.photos_of([]) == {}


def test_the_vectors_and_the_ids_belong_together(index: ImageIndex) -> None:
    index.commit(batch(0, 5))
    index.commit([photo(b"0/2.jpg", version=4)], missing=[id_of(index, b"0/4.jpg")])
    ids, vectors = index.all_vectors()
    assert vectors.dtype == np.float16
    paths = [index.photo(int(photo_id)).path for photo_id in ids]
    assert sorted(paths) == [b"0/0.jpg", b"0/1.jpg", b"0/2.jpg", b"0/3.jpg"]
    for path, stored in zip(paths, vectors, strict=True):
        assert stored @ vector(path, 4 if path == b"0/2.jpg" else 0) > 0.998


def test_photos_come_by_id_and_by_state_however_many_there_are(index: ImageIndex) -> None:
    index.commit(batch(0, 2500), [broken(b"%d" % number) for number in range(1200)])
    assert [found.id for found in index.photos()] == sorted(found.id for found in index.photos())
    assert len(list(index.photos("indexed"))) == 2500
    assert len(list(index.photos("skipped"))) == 1200


def test_search_agrees_with_the_plain_computation(index: ImageIndex) -> None:
    index.set_settings(IndexSettings(SearchSettings(whiten=False)))
    index.commit(batch(0, 300))
    ids, vectors = index.all_vectors()
    queries = np.stack([vector(b"query %d" % number) for number in range(7)])
    scores = queries @ vectors.T.astype(np.float32)
    for query, hits in enumerate(index.search(queries * 5, 20)):
        best = np.argsort(-scores[query])[:20]
        assert [photo_id for photo_id, _ in hits] == ids[best].tolist()
        assert np.allclose([score for _, score in hits], scores[query][best], atol=1e-5)


def test_excluded_photos_are_left_out_and_the_rest_fills_up(index: ImageIndex) -> None:
    index.commit(batch(0, 10))
    [all_hits] = index.search(vector(CAT)[None], 10)
    [hits] = index.search(vector(CAT)[None], 4, PhotoFilter(exclude=frozenset({all_hits[0][0], all_hits[2][0], 999})))
    assert hits == [all_hits[1], *all_hits[3:6]]


def test_more_neighbors_than_photos_gives_all_photos(index: ImageIndex) -> None:
    assert index.search(vector(CAT)[None], 5) == [[]]
    index.commit(batch(0, 3))
    assert len(index.search(vector(CAT)[None], 50)[0]) == 3


def test_equal_photos_come_in_the_order_of_their_ids(index: ImageIndex) -> None:
    same = [EmbeddedPhoto(photo(path).stamp, b"", 1, 1, None, vector(CAT)) for path in (ELK, DOG, CAT)]
    index.commit(same)
    [hits] = index.search(vector(CAT)[None], 3)
    assert [photo_id for photo_id, _ in hits] == sorted(photo_id for photo_id, _ in hits)
    assert all(score <= 1 for _, score in hits)


@pytest.mark.parametrize(
    "queries",
    [
        np.ones(DIM, np.float32),
        np.ones((1, DIM + 1), np.float32),
        np.full((1, DIM), np.nan, np.float32),
        np.full((2, DIM), np.inf, np.float32),
        np.zeros((1, DIM), np.float32),
    ],
)
def test_senseless_queries_are_refused(index: ImageIndex, queries: np.ndarray) -> None:
    index.commit(batch(0, 3))
    with pytest.raises(ValueError, match="must"):
        index.search(queries, 1)


def test_zero_neighbors_are_refused(index: ImageIndex) -> None:
    with pytest.raises(ValueError, match="k must"):
        index.search(vector(CAT)[None], 0)


def test_unknown_photos_are_named(index: ImageIndex) -> None:
    index.commit(skipped=[broken(CAT)])
    with pytest.raises(UnknownPhoto, match="12"):
        index.photo(12)
    with pytest.raises(UnknownPhoto):
        index.vectors([id_of(index, CAT)])
    assert index.photo_at(DOG) is None


def test_ids_may_come_out_of_an_array(index: ImageIndex) -> None:
    index.commit([photo(CAT), photo(DOG)])
    ids, vectors = index.all_vectors()
    assert index.photo(ids[0]).path == CAT
    assert (index.vectors(ids) == vectors).all()
    assert index.select(PhotoFilter(ids=frozenset(ids[1:]))) == ids[1:]
