"""Every level of the ladder finds what exact search finds, within filters too, and stays right through commits."""

import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from generated_photos import DIM, ENCODER, assert_stored, batch, photo, vector
from hypothesis import given, settings
from hypothesis import strategies as st

from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import Float32, PhotoFilter, SearchLevel, SearchSettings
from mocosearch_index.search.making import EXACT_UP_TO, level_for
from mocosearch_index.search.structure import SearchStructure
from mocosearch_index.vectors import Float16, Int64, VectorFile

COUNT = 1500
LEVELS: tuple[SearchLevel, ...] = ("exact", "ivf", "compressed")
QUERIES = np.stack([vector(b"query %d" % number) for number in range(20)])


def set_search(index: ImageIndex, wanted: SearchSettings) -> None:
    index.set_settings(replace(index.settings, search=wanted))
    index.save_search_file()


def nearest(index: ImageIndex, query: Float32, ids: np.ndarray, k: int) -> list[int]:
    """Return what the plain computation finds among `ids`."""
    scores = index.vectors(ids.tolist()) @ query
    return ids[np.argsort(-scores, kind="stable")][:k].tolist()


def recall(index: ImageIndex, where: PhotoFilter, ids: np.ndarray) -> float:
    found = index.search(QUERIES, 10, where)
    assert all(len(hits) == min(10, len(ids)) for hits in found)
    right = [
        len({photo_id for photo_id, _ in hits} & set(nearest(index, query, ids, 10)))
        for query, hits in zip(QUERIES, found, strict=True)
    ]
    return sum(right) / (len(QUERIES) * min(10, len(ids)))


@pytest.fixture(scope="module", params=LEVELS)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageIndex]:
    """An index of every level, read from its file. Tests leave it as it is."""
    root = tmp_path_factory.mktemp("library")
    with ImageIndex.create(root / ".mocosearch", root=root, encoder=ENCODER) as index:
        index.commit(batch(0, COUNT))
        set_search(index, SearchSettings(level=request.param, whiten=False))
    with ImageIndex.open(root / ".mocosearch") as reader:
        yield reader


def test_it_finds_what_exact_search_finds_as_well_as_it_says(stored: ImageIndex) -> None:
    report = stored.search_report()
    ids, _ = stored.all_vectors()
    found = recall(stored, PhotoFilter(), ids)
    assert (report.count, report.dim) == (COUNT, DIM)
    if report.level == "exact":
        assert found == 1
        assert (report.recall_at_10, report.cells, report.cells_visited) == (None, None, None)
    else:
        assert report.recall_at_10 is not None
        assert report.recall_at_10 >= {"ivf": 0.99, "compressed": 0.95}[report.level]
        assert found >= report.recall_at_10 - 0.04
        assert report.cells is not None
        assert report.cells_visited is not None
        assert 0 < report.cells_visited < report.cells


def test_scores_are_cosines_and_every_photo_finds_itself(stored: ImageIndex) -> None:
    versions = {found.path: 0 for found in stored.photos()}
    assert_stored(stored, versions)
    for query, hits in zip(QUERIES, stored.search(QUERIES, 30), strict=True):
        ids, scores = zip(*hits, strict=True)
        assert np.allclose(scores, stored.vectors(ids) @ query, atol=2e-3)
        assert list(scores) == sorted(scores, reverse=True)


@pytest.mark.parametrize("share", [1, 3, 40, 700])
def test_a_filter_leaves_neither_wrong_photos_nor_gaps(stored: ImageIndex, share: int) -> None:
    ids, _ = stored.all_vectors()
    chosen = ids[::share]
    where = PhotoFilter(ids=frozenset(chosen.tolist()), exclude=frozenset(chosen[:1].tolist()))
    assert recall(stored, where, chosen[1:]) >= (0.93 if share == 1 else 0.98)
    if share > 1:
        [hits] = stored.search(QUERIES[:1], 10, where)
        assert [photo_id for photo_id, _ in hits] == nearest(stored, QUERIES[0], chosen[1:], 10)


def test_more_neighbors_than_cells_hold_are_all_found(stored: ImageIndex) -> None:
    assert {len({photo_id for photo_id, _ in hits}) for hits in stored.search(QUERIES[:3], COUNT + 5)} == {COUNT}


def test_a_least_score_cuts_the_tail(stored: ImageIndex) -> None:
    [all_hits] = stored.search(QUERIES[:1], 20)
    least = all_hits[7][1]
    assert stored.search(QUERIES[:1], 20, PhotoFilter(min_score=least)) == [all_hits[:8]]


@settings(max_examples=60, deadline=None)
@given(
    only=st.none() | st.frozensets(st.integers(1, 60)),
    exclude=st.frozensets(st.integers(-1, 10**12) | st.integers(1, 60)),
    folder=st.sampled_from([None, b"1", b"2", b"nowhere"]),
    k=st.integers(1, 60),
)
def test_any_filter_finds_exactly_the_nearest_that_pass(
    small: ImageIndex, only: frozenset[int] | None, exclude: frozenset[int], folder: bytes | None, k: int
) -> None:
    passing = [
        found.id
        for found in small.photos("indexed")
        if (only is None or found.id in only)
        and found.id not in exclude
        and (folder is None or found.path.startswith(folder + b"/"))
    ]
    [hits] = small.search(QUERIES[:1], k, PhotoFilter(folder=folder, ids=only, exclude=exclude))
    assert [photo_id for photo_id, _ in hits] == nearest(small, QUERIES[0], np.array(passing, np.int64), k)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageIndex]:
    root = tmp_path_factory.mktemp("library")
    with ImageIndex.create(root / ".mocosearch", root=root, encoder=ENCODER) as index:
        index.commit(batch(1, 20) + batch(2, 20))
        yield index


@pytest.mark.parametrize("level", LEVELS)
def test_it_follows_commits_and_keeps_what_it_learned(folder: Path, index: ImageIndex, level: SearchLevel) -> None:
    index.commit(batch(0, COUNT))
    set_search(index, SearchSettings(level=level))
    learned = index.search_report()
    index.close()
    reader = ImageIndex.open(folder)
    reader.search(QUERIES, 1)
    with ImageIndex.open(folder, writable=True) as writer:
        gone = [found.id for found in writer.photos() if found.path.endswith(b"7.jpg")]
        writer.commit(batch(1, 30), missing=gone)
        writer.commit([photo(b"0/%d.jpg" % number, version=3) for number in range(0, 50, 10)])
        versions = {found.path: 3 if found.mtime_ns == 3 else 0 for found in writer.photos("indexed")}
        assert reader.refresh()
        writer.save_search_file()
        report = writer.search_report()
        assert replace(report, count=COUNT, bytes_a_vector=learned.bytes_a_vector) == learned
        for one in (writer, reader):
            assert_stored(one, versions)
    with reader, ImageIndex.open(folder) as later:
        assert_stored(later, versions)
        assert later.search_report() == report
        assert later.verify() == []


def test_cells_are_learned_anew_once_there_are_many_more_photos(index: ImageIndex) -> None:
    index.commit(batch(0, 1000))
    set_search(index, SearchSettings(level="ivf"))
    few = index.search_report().cells
    index.commit(batch(1, 900))
    index.save_search_file()
    assert index.search_report().cells == few
    index.commit(batch(2, 3000))
    index.save_search_file()
    many = index.search_report()
    assert few is not None
    assert many.cells is not None
    assert many.cells > few
    assert many.recall_at_10 is not None
    assert many.recall_at_10 >= 0.99


def test_a_reader_without_a_file_is_exact_and_takes_the_better_structure_once_it_is_there(
    folder: Path, index: ImageIndex
) -> None:
    index.commit(batch(0, COUNT))
    index.set_settings(replace(index.settings, search=SearchSettings(level="compressed")))
    with ImageIndex.open(folder) as reader:
        exact = reader.search(QUERIES, 10)
        assert reader.search_report().level == "exact"
        index.save_search_file()
        assert not reader.refresh()  # no photo changed
        assert reader.search_report().level == "compressed"
        compressed = reader.search(QUERIES, 10)
        pairs = zip(exact, compressed, strict=True)
        assert sum(len(dict(one).keys() & dict(other)) for one, other in pairs) >= 0.9 * 10 * len(QUERIES)


@pytest.mark.parametrize("level", ["ivf", "compressed"])
def test_many_threads_are_right_while_commits_follow(folder: Path, index: ImageIndex, level: SearchLevel) -> None:
    index.commit(batch(0, COUNT))
    set_search(index, SearchSettings(level=level))
    with ImageIndex.open(folder) as reader, ThreadPoolExecutor(8) as pool:

        def look(start: int) -> None:
            for number in range(start, COUNT, 16):
                path = b"0/%d.jpg" % number
                where = PhotoFilter(folder=b"0") if number % 2 else PhotoFilter()
                [hits] = reader.search(vector(path)[None], 3, where)
                assert reader.photo(hits[0][0]).path == path
                assert len(hits) == 3

        looking = [pool.submit(look, start) for start in range(8)]
        for number in range(1, 8):
            index.commit(batch(number, 20))
            if number == 4:
                index.save_search_file()
            assert reader.refresh()
        for searches in looking:
            searches.result()
        assert reader.search(vector(b"7/3.jpg")[None], 1)[0][0][1] > 0.998


def test_damage_anywhere_in_a_compressed_search_file_is_found_and_harmless(folder: Path, index: ImageIndex) -> None:
    index.commit(batch(0, COUNT))
    set_search(index, SearchSettings(level="compressed", dim=16))
    index.close()
    [path] = folder.glob("search-*.faiss")
    whole = path.read_bytes()
    for place in np.random.default_rng(5).integers(0, len(whole), 25).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with ImageIndex.open(folder) as reader:
            assert "search file" in reader.verify()[0].what
            reader.search(QUERIES[:1], 1)
            assert reader.search_report().level == "exact"
    path.write_bytes(whole[:-1])
    with ImageIndex.open(folder) as reader:
        assert reader.search_report().level == "exact"
    with ImageIndex.open(folder, writable=True) as writer:
        assert all(problem.repaired for problem in writer.verify(repair=True))
        assert writer.search_report().level == "compressed"


def test_what_the_file_says_of_itself_is_what_searches(stored: ImageIndex) -> None:
    with ImageIndex.open(stored.folder) as reader:
        said = reader.search_report()
        reader.search(QUERIES[:1], 1)
        assert reader.search_report() == said


@pytest.mark.parametrize(
    ("count", "dim", "wanted", "level"),
    [
        (EXACT_UP_TO, 2048, None, "exact"),
        (EXACT_UP_TO + 1, 512, None, "ivf"),
        (2_000_000, 512, None, "ivf"),
        (2_200_000, 512, None, "compressed"),
        (2_200_000, 256, None, "ivf"),
        (600_000, 2048, None, "compressed"),
        (5_000_000, 2048, "exact", "exact"),
        (5000, 512, "compressed", "compressed"),
        (999, 512, "ivf", "exact"),
    ],
)
def test_the_level_goes_by_number_and_memory_unless_it_is_chosen(
    count: int, dim: int, wanted: SearchLevel | None, level: SearchLevel
) -> None:
    assert level_for(count, dim, SearchSettings(level=wanted)) == level


def test_a_structure_that_is_replaced_makes_room_before_the_next_is_made(index: ImageIndex) -> None:
    index.commit(batch(0, COUNT))
    index.search(QUERIES[:1], 1)
    cache = index._open.files.search
    before = weakref.ref(cast("SearchStructure", cache._structure))
    there: list[bool] = []

    class Watched(VectorFile):
        def blocks(self, rows: Int64) -> Iterator[tuple[slice, Float16]]:
            there.append(before() is not None)
            return super().blocks(rows)

    cache._vectors.__class__ = Watched
    set_search(index, SearchSettings(level="ivf"))
    assert index.search_report().level == "ivf"
    following, *making = there
    assert following
    assert making
    assert not any(making)
