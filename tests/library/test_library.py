"""What a library finds and tells, where its index lies, and who may open it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch.encoders import Encoder
from mocosearch.errors import NoLibrary, NoPhotos, PhotoGone
from mocosearch.library import Library
from mocosearch_index.errors import (
    IndexExists,
    IndexLocked,
    UnknownPhoto,
)
from tests.library.six_photos import best_match, indexed, write_photo


def snapshot(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_every_photo_is_indexed_and_finds_itself(library: Library) -> None:
    assert indexed(library) == {b"0.jpg", b"1.jpg", b"2.jpg", b"3.jpg", b"4.jpg", b"sub/5.png"}
    for name in indexed(library):
        assert best_match(library, name) == name
    photo = next(library.index.photos())
    assert (photo.width, photo.height, photo.taken_at) == (64, 48, None)
    assert photo.content_hash
    assert library.index.verify() == []


def test_a_missing_folder_is_an_error_and_changes_nothing(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    with Library.create(root, encoder, tmp_path / "index") as library:
        library.update()
        root.rename(tmp_path / "unplugged")
        with pytest.raises(NoPhotos, match="connect the drive"):
            library.update(prune=True)
        assert len(indexed(library)) == 6
        (tmp_path / "unplugged").rename(root)
        assert library.update().unchanged == 6


def test_a_library_moved_as_a_whole_goes_on(library: Library, root: Path, tmp_path: Path) -> None:
    library.close()
    root.rename(tmp_path / "moved")
    with Library.open(tmp_path / "moved", writable=True) as moved:
        assert best_match(moved, b"3.jpg") == b"3.jpg"
        assert moved.original(1).is_file()
        write_photo(moved.root, b"new.jpg", 9)
        assert moved.update().embedded == 1


def test_an_index_elsewhere_knows_its_photos_and_refuses_others(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    with Library.create(root, encoder, tmp_path / "index") as library:
        library.update()
    assert not (root / ".mocosearch").exists()
    for found in (Library.open(root, tmp_path / "index"), Library.open(tmp_path / "index")):
        assert found.root == root
        assert best_match(found, b"3.jpg") == b"3.jpg"
        found.close()
    (tmp_path / "others").mkdir()
    with pytest.raises(IndexExists, match="name another --index-dir"):
        Library.open(tmp_path / "others", tmp_path / "index")
    with pytest.raises(NoLibrary):
        Library.open(root)


@pytest.mark.parametrize("place", ["a run", "photos beside a folder named encoder", "the photos"])
def test_an_index_never_mixes_with_what_is_there(root: Path, encoder: Encoder, tmp_path: Path, place: str) -> None:
    folder = tmp_path / "run" if place == "a run" else root
    if place == "a run":
        encoder.save(folder / "encoder")
        (folder / "run.json").write_text("{}")
    if place == "photos beside a folder named encoder":
        write_photo(root, b"encoder/7.jpg", 7)
    before = snapshot(tmp_path)
    with pytest.raises(IndexExists, match="name a folder of its own with --index-dir"):
        Library.create(root, encoder, folder)
    assert snapshot(tmp_path) == before


def test_similar_photos_leave_out_the_photo_itself_and_what_is_gone(library: Library, root: Path) -> None:
    photo = library.index.photo_at(b"2.jpg")
    assert photo is not None
    hits = library.search([photo.id], k=10)
    assert library.search([np.int64(photo.id)], k=10) == hits  # as ids come out of arrays
    assert len(hits) == 5
    assert photo.id not in {hit.photo.id for hit in hits}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    (root / "2.jpg").unlink()
    with pytest.raises(PhotoGone, match="bring the library up to date"):
        library.original(photo.id)
    library.update()
    assert b"2.jpg" not in {hit.photo.path for hit in library.search([1], k=10)}
    with pytest.raises(UnknownPhoto):
        library.search([99], k=1)


def test_a_search_goes_past_photos_that_a_compaction_has_forgotten(library: Library, root: Path) -> None:
    with Library.open(root) as reader:
        every = reader.search([1], k=10)
        library.close()
        (root / os.fsdecode(every[1].photo.path)).unlink()
        with Library.open(root, writable=True) as writer:
            writer.update()
            writer.compact()
        assert reader.search([1], k=10) == [every[0], *every[2:]]


def test_folders_and_files_may_be_named_as_text(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    index_dir = str(tmp_path / "index")
    with Library.create(str(root), encoder, index_dir) as library:
        library.update()
    with Library.open(str(root), index_dir) as library:
        assert library.search([library.example(str(root / "0.jpg"))], k=9) == library.search([1], k=9)
    Library.open_or_create(str(root), index_dir=index_dir)[0].close()


def test_a_photo_is_known_again_by_its_content_and_seen_as_it_is_when_that_changed(
    library: Library, root: Path, tmp_path: Path
) -> None:
    photo = library.index.photo_at(b"2.jpg")
    assert photo is not None
    assert library.example(root / "2.jpg") == photo.id
    os.utime(root / "2.jpg", ns=(1, 1))
    assert library.example(root / "2.jpg") == photo.id
    stored = library.index.vectors([photo.id])[0]
    for source in (shutil.copy(root / "2.jpg", tmp_path / "copy.jpg"), (root / "2.jpg").read_bytes()):
        example = library.example(source)
        assert isinstance(example, np.ndarray)
        assert np.array_equal(example, stored)
    shutil.copy(root / "3.jpg", root / "2.jpg")
    assert library.search([library.example(root / "2.jpg")], k=1)[0].photo.path == b"3.jpg"
    write_photo(root, b"2.jpg", 99)
    assert isinstance(library.example(root / "2.jpg"), Image.Image)
    (root / "2.jpg").unlink()  # as when its drive is off
    assert library.example(root / "2.jpg") == photo.id
    library.update()
    with pytest.raises(NoPhotos, match="There is no file"):
        library.example(root / "2.jpg")


def test_the_status_says_what_is_there(library: Library, encoder: Encoder) -> None:
    status = library.status()
    assert (status.root, status.folder) == (library.root, library.root / ".mocosearch")
    assert status.counts == {"indexed": 6, "skipped": 0, "missing": 0}
    assert status.encoder.fingerprint == encoder.fingerprint
    assert status.size_on_disk > 40e6  # of which the encoder is most


def test_only_one_process_writes(library: Library) -> None:
    with pytest.raises(IndexLocked):
        Library.open_or_create(library.root)
    with Library.open(library.root) as reader:
        assert best_match(reader, b"4.jpg") == b"4.jpg"


@pytest.mark.parametrize(
    "action",
    [
        "library.search([1], k=3)",
        "library.status()",
        "library.original(1)",
        "library.update()",
    ],
)
def test_what_needs_no_encoder_loads_no_torch(library: Library, action: str) -> None:
    library.close()
    program = (
        "import sys; from pathlib import Path; from mocosearch.library import Library\n"
        f"library = Library.open(Path(sys.argv[1]), writable=True); {action}\n"
        "print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(library.root)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
