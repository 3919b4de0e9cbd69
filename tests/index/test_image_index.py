import os
import shutil
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generated_photos import DIM, ENCODER, assert_stored, batch, broken, photo, vector

from mocosearch_index.errors import EncoderMismatch, IndexExists, NotAnIndex, UnknownPhoto
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import (
    EmbeddedPhoto,
    EncoderIdentity,
    FileStamp,
    IndexSettings,
    PhotoFilter,
    SearchSettings,
)

CAT, DOG, ELK = b"cat.jpg", b"dog.jpg", b"elk.jpg"


def id_of(index: ImageIndex, path: bytes) -> int:
    found = index.photo_at(path)
    assert found is not None
    return found.id


def test_what_was_committed_is_there_when_opened_again(folder: Path, index: ImageIndex) -> None:
    index.commit([photo(CAT), photo(DOG)], [broken(ELK)])
    index.close()
    with ImageIndex.open(folder) as reader:
        assert reader.root == folder.parent
        assert reader.encoder == ENCODER
        assert reader.change == 1
        assert_stored(reader, {CAT: 0, DOG: 0})
        assert reader.counts() == {"indexed": 2, "skipped": 1, "missing": 0}
        assert reader.skip_reasons() == {"truncated": 1}
        assert reader.verify() == []
        elk = reader.photo_at(ELK)
        assert elk is not None
        assert (elk.state, elk.reason, elk.detail, elk.width) == (
            "skipped",
            "truncated",
            "ends in the middle",
            None,
        )


def test_everything_known_of_a_photo_comes_back(index: ImageIndex) -> None:
    stamp = FileStamp(CAT, size=2**40, mtime_ns=-5)
    index.commit([EmbeddedPhoto(stamp, b"\0hash", 4000, 3000, "2021-06-05T04:03:02", vector(CAT))])
    cat = index.photo(id_of(index, CAT))
    assert (cat.path, cat.size, cat.mtime_ns, cat.content_hash) == (CAT, 2**40, -5, b"\0hash")
    assert (cat.width, cat.height, cat.taken_at) == (4000, 3000, "2021-06-05T04:03:02")
    assert (cat.state, cat.reason, cat.detail) == ("indexed", None, None)


def test_a_changed_photo_keeps_its_id_and_is_found_by_its_new_content_only(index: ImageIndex) -> None:
    index.commit([photo(CAT), photo(DOG)])
    cat = id_of(index, CAT)
    index.search(vector(CAT)[None], 1)  # the structure exists and has to follow
    index.commit([photo(CAT, version=1)])
    assert id_of(index, CAT) == cat
    assert_stored(index, {CAT: 1, DOG: 0})
    [[_, (_, score)]] = index.search(vector(CAT, version=0)[None], 2)
    assert score < 0.9


def test_a_photo_that_became_unreadable_is_no_longer_found(index: ImageIndex) -> None:
    index.commit([photo(CAT), photo(DOG)])
    index.commit(skipped=[broken(CAT)])
    assert_stored(index, {DOG: 0})
    cat = index.photo_at(CAT)
    assert cat is not None
    assert cat.content_hash is None


def test_a_missing_photo_is_not_found_and_lives_again_when_it_returns(index: ImageIndex) -> None:
    index.commit([photo(CAT), photo(DOG)])
    cat = id_of(index, CAT)
    index.commit(missing=[cat])
    assert_stored(index, {DOG: 0})
    assert index.photo(cat).state == "missing"
    assert index.known()[CAT].state == "missing"
    index.commit([photo(CAT, version=3)])
    assert id_of(index, CAT) == cat
    assert_stored(index, {CAT: 3, DOG: 0})


def test_an_unchanged_missing_file_returns_without_being_embedded_again(index: ImageIndex) -> None:
    index.commit([photo(CAT)], [broken(DOG)])
    both = [id_of(index, CAT), id_of(index, DOG)]
    index.commit(missing=both)
    index.commit(returned=both)
    assert_stored(index, {CAT: 0})
    assert index.skip_reasons() == {"truncated": 1}


def test_a_moved_photo_keeps_its_id_and_its_vector(index: ImageIndex) -> None:
    index.commit([photo(CAT), photo(DOG)])
    cat = id_of(index, CAT)
    index.commit([photo(CAT, version=1)], moved=[(cat, FileStamp(ELK, 1000, 77))])  # and another photo takes its place
    assert index.photo_at(ELK) == replace(index.photo(cat), path=ELK, mtime_ns=77)
    assert id_of(index, CAT) != cat
    [[(nearest, _)]] = index.search(vector(CAT)[None], 1)
    assert nearest == cat
    assert index.verify() == []


def test_a_missing_photo_that_turns_up_elsewhere_is_indexed_again(index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    cat = id_of(index, CAT)
    index.commit(missing=[cat])
    index.commit(moved=[(cat, FileStamp(DOG, 1000, 5))])
    assert (index.photo(cat).state, index.photo(cat).path) == ("indexed", DOG)
    assert index.photo_at(CAT) is None


def test_photos_move_one_after_the_other_so_that_one_can_take_the_place_of_the_next(index: ImageIndex) -> None:
    index.commit([photo(CAT), photo(DOG)])
    cat, dog = id_of(index, CAT), id_of(index, DOG)
    onward = (dog, FileStamp(ELK, 1, 1))
    with pytest.raises(ValueError, match="another photo has"):
        index.commit(moved=[(cat, FileStamp(DOG, 1, 1)), onward])
    assert (id_of(index, CAT), id_of(index, DOG)) == (cat, dog)
    index.commit(moved=[onward, (cat, FileStamp(DOG, 1, 1))])
    assert (id_of(index, DOG), id_of(index, ELK)) == (cat, dog)
    index.commit(moved=[(cat, FileStamp(DOG, 2, 2))])  # touched: the same path, another time
    assert index.known()[DOG].stamp == FileStamp(DOG, 2, 2)


def test_what_has_no_vector_cannot_move(index: ImageIndex) -> None:
    index.commit(skipped=[broken(CAT)])
    with pytest.raises(UnknownPhoto):
        index.commit(moved=[(id_of(index, CAT), FileStamp(DOG, 1, 1))])


def test_photos_are_found_by_content_and_size_whether_their_file_is_there_or_not(index: ImageIndex) -> None:
    index.commit([photo(CAT, version=1), photo(DOG), photo(ELK)], [broken(b"broken.jpg")])
    hash_of_cat = photo(CAT, version=1).content_hash
    copy = EmbeddedPhoto(FileStamp(b"copy.jpg", 1001, 9), hash_of_cat, 640, 480, None, vector(CAT, 1))
    index.commit([copy], missing=[id_of(index, CAT)])
    assert [found.path for found in index.with_content(hash_of_cat)] == [CAT, b"copy.jpg"]
    assert index.with_content(b"unknown") == []
    assert index.sizes() == {1000, 1001}


def test_settings_are_kept_and_seen_by_a_reader_as_a_commit(folder: Path, index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    assert index.settings == IndexSettings()
    chosen = IndexSettings(SearchSettings("ivf", 64, True), ("*.raw", "caf\udce9"), ("tmp/", "!keep"))
    with ImageIndex.open(folder) as reader:
        index.set_settings(chosen)
        assert index.settings == chosen
        assert reader.refresh()
        assert reader.settings == chosen
        assert reader.change == 2
    index.close()
    with ImageIndex.open(folder, writable=True) as again:
        assert again.settings == chosen


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


def test_ids_are_never_used_twice(index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    index.commit([photo(CAT, version=1), photo(DOG)])
    index.commit([photo(ELK)])
    assert len({id_of(index, path) for path in (CAT, DOG, ELK)}) == 3


def test_known_tells_what_a_rescan_needs(index: ImageIndex) -> None:
    index.commit([photo(CAT)], [broken(DOG, version=7)])
    known = index.known()
    assert (known[CAT].stamp, known[CAT].reason, known[CAT].decoder) == (photo(CAT).stamp, None, None)
    assert (known[DOG].stamp.mtime_ns, known[DOG].reason, known[DOG].decoder) == (7, "truncated", "decoder 1")


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


@pytest.mark.parametrize("bad", [np.full(DIM, np.nan), np.ones(DIM - 1), np.zeros(DIM), np.ones((1, DIM))])
def test_a_senseless_vector_is_refused_and_nothing_of_its_commit_stays(index: ImageIndex, bad: np.ndarray) -> None:
    wrong = EmbeddedPhoto(FileStamp(DOG, 1, 1), b"", 1, 1, None, bad.astype(np.float32))
    with pytest.raises(ValueError, match="vector"):
        index.commit([photo(CAT), wrong])
    assert index.counts()["indexed"] == 0
    assert index.change == 0


def test_a_path_twice_in_one_commit_is_refused(index: ImageIndex) -> None:
    with pytest.raises(ValueError, match="twice"):
        index.commit([photo(CAT)], [broken(CAT)])


def test_an_unknown_id_undoes_the_whole_commit(index: ImageIndex) -> None:
    with pytest.raises(UnknownPhoto, match="77"):
        index.commit([photo(CAT)], missing=[77])
    assert index.counts()["indexed"] == 0
    index.commit([photo(DOG)])
    assert_stored(index, {DOG: 0})
    assert index.verify() == []


def test_unknown_photos_are_named(index: ImageIndex) -> None:
    index.commit(skipped=[broken(CAT)])
    with pytest.raises(UnknownPhoto, match="12"):
        index.photo(12)
    with pytest.raises(UnknownPhoto):
        index.vectors([id_of(index, CAT)])
    assert index.photo_at(DOG) is None


def test_a_reader_cannot_write(folder: Path, index: ImageIndex) -> None:
    with ImageIndex.open(folder) as reader, pytest.raises(ValueError, match="reading"):
        reader.commit([photo(CAT)])


def test_no_index_and_a_second_index_are_errors(tmp_path: Path, folder: Path, index: ImageIndex) -> None:
    with pytest.raises(NotAnIndex, match="mocosearch index"):
        ImageIndex.open(tmp_path)
    index.close()
    with pytest.raises(IndexExists):
        ImageIndex.create(folder, root=tmp_path, encoder=ENCODER)


def test_a_file_of_something_else_is_not_an_index(folder: Path) -> None:
    folder.mkdir()
    (folder / "catalog.sqlite").write_bytes(b"")
    with pytest.raises(NotAnIndex):
        ImageIndex.open(folder)


def test_nobody_else_can_look_into_the_folder(folder: Path, index: ImageIndex) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_library_with_the_index_inside_can_be_moved(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with ImageIndex.create(old / ".mocosearch", root=old, encoder=ENCODER) as index:
        index.commit([photo(CAT)])
    old.rename(new)
    with ImageIndex.open(new / ".mocosearch") as index:
        assert index.root == new
        assert_stored(index, {CAT: 0})


def test_an_index_elsewhere_remembers_its_root(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"ph\xf6tos\n")
    root.mkdir()
    with ImageIndex.create(tmp_path / "a" / "b", root=root, encoder=ENCODER):
        pass
    (tmp_path / "a").rename(tmp_path / "c")
    with ImageIndex.open(tmp_path / "c" / "b") as index:
        assert index.root == root


def test_an_index_made_anew_is_picked_up_unless_its_encoder_differs(folder: Path, index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    index.close()
    reader = ImageIndex.open(folder)
    assert_stored(reader, {CAT: 0})

    def make_anew(encoder: EncoderIdentity) -> None:
        for path in folder.iterdir():
            path.unlink()
        with ImageIndex.create(folder, root=folder.parent, encoder=encoder) as again:
            again.commit([photo(DOG)])

    make_anew(ENCODER)
    assert reader.refresh()
    assert_stored(reader, {DOG: 0})
    make_anew(EncoderIdentity("f" * 16, DIM, "another"))
    with pytest.raises(EncoderMismatch, match="0123456789abcdef before, ffffffffffffffff now"):
        reader.refresh()
    reader.close()


def test_a_discarded_index_leaves_nothing_of_its_own(folder: Path, index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    index.save_search_file()
    (folder / "notes.txt").write_text("mine")
    index.discard()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    ImageIndex.create(folder, root=folder.parent, encoder=ENCODER).discard()
    assert not folder.exists()


def test_the_search_file_is_written_only_when_something_changed(folder: Path, index: ImageIndex) -> None:
    index.commit([photo(CAT)])
    index.save_search_file()
    [path] = folder.glob("*.faiss")
    written = path.stat().st_ino
    index.save_search_file()
    assert path.stat().st_ino == written
    index.commit([photo(DOG)])
    assert not path.exists()
    index.save_search_file()
    assert path.exists()


def test_the_size_on_disk_counts_every_file(folder: Path, index: ImageIndex) -> None:
    before = index.size_on_disk()
    (folder / "encoder").mkdir()
    (folder / "encoder" / "weights").write_bytes(b"x" * 12345)
    assert index.size_on_disk() == before + 12345


def test_the_size_on_disk_can_be_told_while_files_come_and_go(folder: Path, index: ImageIndex) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            (folder / "thumbnails").mkdir()
            for number in range(20):
                (folder / "thumbnails" / str(number)).touch()
            shutil.rmtree(folder / "thumbnails")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            sizes = {index.size_on_disk() for _ in range(500)}
        finally:
            stop.set()
        writing.result(timeout=60)
    assert sizes == {index.size_on_disk()}


def test_ids_may_come_out_of_an_array(index: ImageIndex) -> None:
    index.commit([photo(CAT), photo(DOG)])
    ids, vectors = index.all_vectors()
    assert index.photo(ids[0]).path == CAT
    assert (index.vectors(ids) == vectors).all()
    assert index.select(PhotoFilter(ids=frozenset(ids[1:]))) == ids[1:]
