"""What an update does without an encoder: files that moved, were copied, touched or left out."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mocosearch.images.decode import Undecodable
from mocosearch.images.prepared import content_hash
from mocosearch.update.run import UpdateReport, run_update
from mocosearch.update.scan import look
from mocosearch.update.work import Progress, Work
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, EncoderIdentity, FileStamp, Float32

DIM = 16


class EncoderNeeded(Exception):
    """The update wants to embed something."""


def refuse() -> NoReturn:
    raise EncoderNeeded


def vector_of(content: bytes) -> Float32:
    numbers = np.random.default_rng(list(content)).standard_normal(DIM)
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def write(root: Path, name: str, content: bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def make_index(root: Path) -> ImageIndex:
    """Index what is in `root`, whose files need not be pictures for that."""
    index = ImageIndex.create(root / ".mocosearch", root=root, encoder=EncoderIdentity("f" * 16, DIM, "dice"))
    photos = []
    for stamp in look(root).files:
        content = (root / os.fsdecode(stamp.path)).read_bytes()
        photos.append(EmbeddedPhoto(stamp, content_hash(content), 64, 48, "2020-01-02T03:04:05", vector_of(content)))
    index.commit(photos)
    return index


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four files of the same size."""
    for name in ("a.jpg", "b.jpg", "sub/c.jpg", "sub/d.jpg"):
        write(tmp_path / "photos", name, f"content of {Path(name).stem}".encode())
    return tmp_path / "photos"


@pytest.fixture
def index(root: Path) -> Iterator[ImageIndex]:
    with make_index(root) as index:
        yield index


def update(index: ImageIndex, *, prune: bool = False) -> UpdateReport:
    return run_update(index, refuse, None, None, prune=prune)


def check(index: ImageIndex) -> None:
    """See that the index holds the files of its folder and of each the vector of its content."""
    files = {stamp.path: stamp for stamp in look(index.root).files}
    photos = {photo.path: photo for photo in index.photos("indexed")}
    assert set(photos) == set(files)
    for path, photo in photos.items():
        content = (index.root / os.fsdecode(path)).read_bytes()
        assert (photo.size, photo.mtime_ns) == files[path][1:]
        assert photo.content_hash == content_hash(content)
        assert (photo.width, photo.height, photo.taken_at) == (64, 48, "2020-01-02T03:04:05")
        np.testing.assert_allclose(index.vectors([photo.id])[0], vector_of(content), atol=1e-3)
    assert index.verify() == []


def id_at(index: ImageIndex, path: bytes) -> int:
    photo = index.photo_at(path)
    assert photo is not None
    return photo.id


def test_a_renamed_and_a_moved_file_keep_their_photo(index: ImageIndex, root: Path) -> None:
    before = id_at(index, b"a.jpg"), id_at(index, b"sub/c.jpg")
    (root / "a.jpg").rename(root / "new name.jpg")
    (root / "sub" / "c.jpg").rename(root / "c.jpg")
    report = update(index)
    assert (report.moved, report.copied, report.embedded, report.missing, report.unchanged) == (2, 0, 0, 0, 2)
    assert (id_at(index, b"new name.jpg"), id_at(index, b"c.jpg")) == before
    check(index)


def test_a_renamed_folder_is_no_loss_however_large(tmp_path: Path) -> None:
    for number in range(150):
        write(tmp_path, f"old/{number:03}.jpg", b"%d" % number)
    with make_index(tmp_path) as index:
        (tmp_path / "old").rename(tmp_path / "new")
        report = update(index)
        assert (report.moved, report.kept, report.missing) == (150, 0, 0)
        check(index)


def test_a_copy_shares_the_vector(index: ImageIndex, root: Path) -> None:
    write(root, "copy.jpg", b"content of a")
    report = update(index)
    assert (report.moved, report.copied, report.unchanged) == (0, 1, 4)
    assert id_at(index, b"copy.jpg") != id_at(index, b"a.jpg")
    check(index)


def test_a_touched_file_is_unchanged_and_is_not_read_again(index: ImageIndex, root: Path) -> None:
    os.utime(root / "a.jpg", ns=(1, 1))
    report = update(index)
    assert (report.unchanged, report.moved, report.copied) == (4, 0, 0)
    check(index)
    change = index.change
    update(index)
    assert index.change == change


def test_files_that_exchange_their_names_need_no_encoder(index: ImageIndex, root: Path) -> None:
    (root / "a.jpg").rename(root / "aside")
    (root / "b.jpg").rename(root / "a.jpg")
    (root / "aside").rename(root / "b.jpg")
    os.utime(root / "b.jpg", ns=(1, 1))  # rename keeps the time, by which a change of equal size shows
    os.utime(root / "a.jpg", ns=(2, 2))
    update(index)
    check(index)


def test_a_file_that_comes_from_outside_to_the_place_of_another_counts_as_changed(
    index: ImageIndex, root: Path
) -> None:
    (root / "a.jpg").unlink()
    update(index)
    (root / "b.jpg").rename(root / "a.jpg")
    report = update(index)
    assert (report.moved, report.missing) == (1, 1)
    check(index)


def test_copies_that_move_together_keep_their_names(index: ImageIndex, root: Path) -> None:
    for name in ("sub/x.jpg", "sub/y.jpg"):
        write(root, name, b"content of a")
    update(index)
    before = [id_at(index, b"sub/" + name) for name in (b"x.jpg", b"y.jpg")]
    (root / "sub").rename(root / "elsewhere")
    assert update(index).moved == 4
    assert [id_at(index, b"elsewhere/" + name) for name in (b"x.jpg", b"y.jpg")] == before
    check(index)


def test_a_photo_that_was_missing_for_a_while_is_recognized_at_another_place(index: ImageIndex, root: Path) -> None:
    before = id_at(index, b"a.jpg")
    (root / "a.jpg").rename(root / "aside")
    assert update(index).missing == 1
    (root / "aside").rename(root / "z.jpg")
    assert update(index).moved == 1
    assert id_at(index, b"z.jpg") == before
    check(index)


def test_a_file_of_another_content_and_the_same_size_is_embedded(index: ImageIndex, root: Path) -> None:
    write(root, "e.jpg", b"content of e")
    with pytest.raises(EncoderNeeded):
        update(index)


def test_what_a_new_rule_leaves_out_is_dropped_and_is_no_loss(tmp_path: Path) -> None:
    for number in range(150):
        write(tmp_path, f"raw/{number:03}.jpg", b"%d" % number)
    write(tmp_path, "kept.jpg", b"kept")
    with make_index(tmp_path) as index:
        index.set_settings(replace(index.settings, exclude=("raw/",)))
        report = update(index)
        assert (report.left_out, report.missing, report.kept) == (150, 150, 0)
        assert index.counts()["indexed"] == 1
        index.set_settings(replace(index.settings, exclude=()))
        assert update(index).returned == 150
        check(index)


def test_an_emptied_folder_keeps_what_was_deleted_and_drops_what_is_left_out(index: ImageIndex, root: Path) -> None:
    (root / "a.jpg").unlink()
    (root / "b.jpg").unlink()
    (root / ".mocosearchignore").write_text("/sub\n")
    report = update(index)
    assert (report.kept, report.missing, report.left_out) == (2, 2, 2)
    report = update(index, prune=True)
    assert (report.kept, report.missing) == (0, 2)


def test_stopped_while_comparing_it_takes_nothing_as_lost_and_goes_on_later(index: ImageIndex, root: Path) -> None:
    (root / "sub").rename(root / "other")
    seen: list[Progress] = []
    report = run_update(index, refuse, seen.append, lambda: len(seen) == 1, prune=False)
    assert (report.stopped, report.moved, report.missing) == (True, 1, 0)
    assert update(index).moved == 1
    check(index)


def test_a_file_that_vanishes_while_it_waits_is_not_kept_as_a_skipped_one(index: ImageIndex, root: Path) -> None:
    stamp = look(root).files[0]
    (root / os.fsdecode(stamp.path)).unlink()
    work = Work(index, lambda progress: None, lambda: False)
    work.add(stamp, Undecodable("io", "No such file or directory"))
    assert work.skipped == []


def test_a_file_that_is_tried_again_in_vain_is_no_news(index: ImageIndex, root: Path) -> None:
    stamp = FileStamp(b"closed.jpg", 1, 2)
    for expected in (1, 0):
        work = Work(index, lambda progress: None, lambda: False, known=index.known())
        work.add(stamp, Undecodable("permission", "Permission denied"))
        assert len(work.skipped) == expected
        index.commit(skipped=work.skipped)


names = st.sampled_from([f"{folder}{number}.jpg" for folder in ("", "sub/") for number in range(4)])
contents = st.sampled_from([b"%d" % number for number in range(5)])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(names, contents, min_size=1), min_size=2, max_size=4))
def test_whatever_becomes_of_known_contents_no_encoder_is_needed(states: list[dict[str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, clock = Path(folder), 0
        for number in range(5):  # all contents are known, at places where nothing else happens
            write(root, f"first/{number}.jpg", b"%d" % number)
        with make_index(root) as index:
            for state in states:
                for path in [*root.glob("*.jpg"), *root.glob("sub/*.jpg")]:
                    path.unlink()
                for name, content in state.items():
                    write(root, name, content)
                    clock += 1
                    os.utime(root / name, ns=(clock, clock))
                update(index, prune=True)
                check(index)
