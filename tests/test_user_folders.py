"""What is remembered between commands, and which library is meant when none is named."""

import os
from pathlib import Path

import pytest

from mocosearch import user_folders
from mocosearch.errors import NoLibrary
from mocosearch.find_library import index_folder, library_in_use, remember_library
from mocosearch_index.errors import NotWritable
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EncoderIdentity


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make_index(folder: Path, root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    ImageIndex.create(folder, root=root, encoder=EncoderIdentity("f" * 16, 8, "dice")).close()


def test_nothing_is_remembered_and_nothing_is_made_at_first(home: Path) -> None:
    assert user_folders.current_encoder() is None
    assert user_folders.last_library() is None
    assert user_folders.index_folder_of(home) is None
    assert not home.exists()


def test_what_is_set_is_remembered_as_an_absolute_path(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    user_folders.set_current_encoder(Path("runs/one"))
    user_folders.set_last_library(Path("photos"))
    assert user_folders.current_encoder() == tmp_path / "runs" / "one"
    assert user_folders.last_library() == tmp_path / "photos"
    assert user_folders.cache_folder() == home / "cache"


def test_where_each_encoder_was_trained_is_remembered_until_another_one_takes_its_place(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "encoder.json").write_text(f'{{"fingerprint": "{name}"}}')
        user_folders.set_current_encoder(tmp_path / name)
    assert user_folders.trained_encoder("one") == tmp_path / "one"
    assert user_folders.trained_encoder("two") == tmp_path / "two"
    (tmp_path / "one" / "encoder.json").write_text('{"fingerprint": "three"}')
    assert user_folders.trained_encoder("one") is None


def test_names_that_are_not_utf8_are_remembered(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff\n")
    user_folders.set_last_library(odd)
    user_folders.remember_index_folder(odd, tmp_path / os.fsdecode(b"\xfe"))
    assert user_folders.last_library() == odd
    assert user_folders.index_folder_of(odd) == tmp_path / os.fsdecode(b"\xfe")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_a_file_damaged_by_hand_counts_as_nothing_remembered(home: Path, content: bytes) -> None:
    home.mkdir()
    (home / "last-library.json").write_bytes(content)
    assert user_folders.last_library() is None


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null", "/dev/null/nowhere", "/sys/nowhere"])
def test_a_place_that_cannot_be_written_to_is_named(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCOSEARCH_HOME", place)
    with pytest.raises(NotWritable, match=place):
        user_folders.set_last_library(Path("photos"))
    assert user_folders.last_library() is None


def test_without_the_variable_the_folders_of_the_system_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOCOSEARCH_HOME")
    assert "mocosearch" in str(user_folders.data_folder())
    assert "mocosearch" in str(user_folders.cache_folder())


def test_the_library_of_the_current_folder_or_above_goes_before_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    make_index(here / ".mocosearch", here)
    make_index(other / ".mocosearch", other)
    (here / "2021" / "summer").mkdir(parents=True)
    user_folders.set_last_library(other)
    monkeypatch.chdir(here)
    assert library_in_use() == (here / ".mocosearch", "of the current folder")
    monkeypatch.chdir(here / "2021" / "summer")
    assert library_in_use() == (here / ".mocosearch", "of a folder above the current one")
    monkeypatch.chdir(tmp_path)
    assert library_in_use() == (other / ".mocosearch", "indexed last")
    assert library_in_use(here) == (here / ".mocosearch", "as named")
    assert library_in_use(here / "2021") == (here / ".mocosearch", "of a folder above the one named")
    with pytest.raises(NoLibrary, match="no folder"):
        library_in_use(here / "mistyped")


def test_an_index_kept_elsewhere_is_found_by_its_photos_and_by_itself(tmp_path: Path) -> None:
    photos, index = tmp_path / "photos", tmp_path / "index"
    make_index(index, photos)
    user_folders.remember_index_folder(photos, index)
    assert index_folder(photos) == index
    assert index_folder(index) == index
    assert index_folder(photos, index) == index


def test_of_two_indexes_of_the_same_photos_the_one_indexed_last_is_meant(tmp_path: Path) -> None:
    photos, elsewhere = tmp_path / "photos", tmp_path / "index"
    make_index(photos / ".mocosearch", photos)
    make_index(elsewhere, photos)
    remember_library(photos, elsewhere)
    assert index_folder(photos) == elsewhere
    elsewhere.rename(tmp_path / "unplugged")
    assert index_folder(photos) == photos / ".mocosearch"
    remember_library(photos, photos / ".mocosearch")
    (tmp_path / "unplugged").rename(elsewhere)
    assert index_folder(photos) == photos / ".mocosearch"


def test_a_folder_that_took_the_index_of_other_photos_is_not_that_of_the_first(tmp_path: Path) -> None:
    first, second, index = tmp_path / "first", tmp_path / "second", tmp_path / "index"
    make_index(index, second)
    first.mkdir()
    for photos in (first, second):
        remember_library(photos, index)
    assert index_folder(second) == index
    with pytest.raises(NoLibrary):
        index_folder(first)


def test_where_there_is_no_library_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoLibrary, match="mocosearch index DIR"):
        library_in_use()
    with pytest.raises(NoLibrary, match="has no index"):
        library_in_use(tmp_path)
    with pytest.raises(NoLibrary, match="--index-dir"):
        index_folder(tmp_path, tmp_path / "nowhere")
    user_folders.set_last_library(tmp_path / "gone")
    with pytest.raises(NoLibrary, match="is gone"):
        library_in_use()
