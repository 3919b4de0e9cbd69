"""A library follows its folder: real photos, a real (untrained) encoder, a real index."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from mocosearch.encoders import Encoder, EncoderCard
from mocosearch.errors import NoPhotos
from mocosearch.library import Library, Progress
from mocosearch.nets import build_backbone
from mocosearch.update import work as update_work
from mocosearch_index.errors import (
    NotAnIndex,
)
from mocosearch_index.image_index import ImageIndex
from tests.library.six_photos import SIZES, best_match, indexed, write_photo

ODD = [b"caf\xe9.jpg", b"new\nline.jpg", "ä 😀 'quoted\".JPG".encode(), b"x" * 251 + b".png", b"sub folder/#1?.jpeg"]


def test_an_update_without_changes_embeds_nothing(library: Library) -> None:
    seen: list[Progress] = []
    before = library.index.change
    report = library.update(seen.append)
    assert (report.found, report.new, report.embedded, report.unchanged) == (6, 0, 0, 6)
    assert [progress.stage for progress in seen] == ["saving"]
    assert library.index.change == before


def test_a_drive_that_goes_amid_an_update_is_asked_for(library: Library, root: Path, tmp_path: Path) -> None:
    write_photo(root, b"new.jpg", 100)

    def pull(progress: Progress) -> None:
        if progress.stage == "embedding" and root.exists():
            root.rename(tmp_path / "unplugged")

    with pytest.raises(NotAnIndex, match="connect the drive"):
        library.update(pull)


def test_new_changed_deleted_and_returned_photos_are_followed(library: Library, root: Path, tmp_path: Path) -> None:
    write_photo(root, b"new.jpg", 100)
    write_photo(root, b"1.jpg", 101)
    (root / "2.jpg").rename(tmp_path / "aside.jpg")
    report = library.update()
    assert (report.new, report.embedded, report.missing, report.unchanged) == (1, 2, 1, 4)
    assert indexed(library) == {b"0.jpg", b"1.jpg", b"3.jpg", b"4.jpg", b"sub/5.png", b"new.jpg"}
    assert best_match(library, b"1.jpg") == b"1.jpg"
    assert best_match(library, b"new.jpg") == b"new.jpg"
    (tmp_path / "aside.jpg").rename(root / "2.jpg")
    report = library.update()
    assert (report.returned, report.embedded) == (1, 0)
    assert best_match(library, b"2.jpg") == b"2.jpg"


def test_a_file_that_is_no_picture_is_skipped_once_and_read_when_it_is_one(library: Library, root: Path) -> None:
    (root / "text.jpg").write_text("Dear diary")
    [skip] = library.update().skipped
    assert (skip.stamp.path, skip.reason) == (b"text.jpg", "not-an-image")
    assert library.update().skipped == []
    [listed] = library.status().skipped
    assert (listed.path, listed.reason) == (b"text.jpg", "not-an-image")
    write_photo(root, b"text.jpg", 7)
    assert library.update().embedded == 1
    assert library.status().skipped == []


def test_names_of_every_kind_are_indexed_and_their_files_are_found(root: Path, encoder: Encoder) -> None:
    for seed, name in enumerate(ODD, 50):
        write_photo(root, name, seed)
    with Library.create(root, encoder) as library:
        library.update()
        for name in ODD:
            assert best_match(library, name) == name
            photo = library.index.photo_at(name)
            assert photo is not None
            assert os.fsencode(library.original(photo.id)) == os.fsencode(root) + b"/" + name


def test_progress_counts_up_to_the_number_of_photos_to_embed(root: Path, encoder: Encoder) -> None:
    (root / "text.jpg").write_text("Dear diary")
    seen: list[Progress] = []
    with Library.create(root, encoder) as library:
        library.update(seen.append)
    assert [(progress.stage, progress.done) for progress in seen] == [
        *(("embedding", n) for n in range(1, 8)),
        ("saving", 0),
    ]
    assert {progress.total for progress in seen[:-1]} == {7}
    assert seen[-2].skipped == 1


def test_a_stopped_update_keeps_what_it_did_and_the_next_goes_on(root: Path, encoder: Encoder) -> None:
    with Library.create(root, encoder) as library:
        done: list[int] = []
        report = library.update(lambda progress: done.append(progress.done), lambda: len(done) == 4)
        assert report.stopped
        assert (report.embedded, len(indexed(library))) == (4, 4)
        report = library.update()
        assert not report.stopped
        assert (report.embedded, report.unchanged) == (2, 4)


def test_ctrl_c_commits_before_it_goes_on(root: Path, encoder: Encoder) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done == 3:
            raise KeyboardInterrupt

    with Library.create(root, encoder) as library:
        with pytest.raises(KeyboardInterrupt):
            library.update(interrupt)
        assert len(indexed(library)) == 3
        assert library.update().embedded == 3


def test_commits_come_while_the_update_runs(root: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_work, "COMMIT_SECONDS", 0.0)
    seen: list[int] = []
    with Library.create(root, encoder) as library, ImageIndex.open(library.index.folder) as reader:
        library.update(lambda progress: seen.append(reader.counts()["indexed"]))
    assert seen == [1, 2, 3, 4, 5, 6, 6]  # the last for the search structure


def test_an_empty_folder_and_one_without_any_picture_leave_no_index(tmp_path: Path, encoder: Encoder) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for fill in (None, "Dear diary"):
        if fill is not None:
            (empty / "text.jpg").write_text(fill)
        before = sorted(empty.iterdir())
        with Library.create(empty, encoder) as library, pytest.raises(NoPhotos) as error:
            library.update()
        assert sorted(empty.iterdir()) == before
        assert "\n" not in str(error.value)
    assert "'text.jpg': not-an-image" in str(error.value)
    with pytest.raises(NoPhotos):
        Library.open_or_create(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_photos_in_which_the_encoder_sees_nothing_are_skipped(root: Path) -> None:
    network = build_backbone("resnet18")
    for parameter in network.parameters():
        torch.nn.init.zeros_(parameter)
    blind = Encoder(network, EncoderCard("resnet18", False, 128, "", 8, 0, "", ""), SIZES, torch.device("cpu"))
    with Library.create(root, blind) as library:
        assert library.search([Image.new("RGB", (40, 40), "red")], k=3) == []
        with pytest.raises(NoPhotos, match="featureless"):
            library.update()


def test_an_emptied_folder_keeps_everything_until_that_is_meant(library: Library, root: Path, tmp_path: Path) -> None:
    shutil.move(root / "sub", tmp_path / "sub")
    for path in root.glob("*.jpg"):
        path.unlink()
    report = library.update()
    assert (report.found, report.kept, report.missing) == (0, 6, 0)
    assert len(indexed(library)) == 6
    report = library.update(prune=True)
    assert (report.kept, report.missing) == (0, 6)
    assert indexed(library) == set()
    shutil.move(tmp_path / "sub", root / "sub")
    assert library.update().returned == 1
