"""What a commit changes, and that it is whole or nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generated_photos import CAT, DIM, DOG, ELK, ENCODER, assert_stored, broken, id_of, photo, vector

from mocosearch_index.errors import UnknownPhoto
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import (
    EmbeddedPhoto,
    FileStamp,
    IndexSettings,
    SearchSettings,
)


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
