"""A library follows its folder: real photos, a real (untrained) encoder, a real index."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch import user_folders
from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.errors import BadCheckpoint, NoEncoder, NoLibrary, NoPhotos, PhotoGone
from mocosearch.library import Library, Progress
from mocosearch.nets import build_backbone
from mocosearch.update import work as update_work
from mocosearch_index.errors import (
    DiskFull,
    EncoderMismatch,
    IndexExists,
    IndexLocked,
    NotAnIndex,
    NotWritable,
    UnknownPhoto,
)
from mocosearch_index.image_index import ImageIndex

SIZES = Preprocessing(36, 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
ODD = [b"caf\xe9.jpg", b"new\nline.jpg", "ä 😀 'quoted\".JPG".encode(), b"x" * 251 + b".png", b"sub folder/#1?.jpeg"]


def make_encoder(seed: int) -> Encoder:
    torch.manual_seed(seed)
    card = EncoderCard("resnet18", False, 128, "dice", 8, 0, "none", "")
    return Encoder(build_backbone("resnet18"), card, SIZES, torch.device("cpu"))


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return make_encoder(0)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write_photo(root: Path, name: bytes, seed: int) -> None:
    """Write a picture of colored patches that no other seed gives."""
    patches = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    path = root / os.fsdecode(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "PNG" if name.endswith(b".png") else "JPEG"
    Image.fromarray(patches).resize((64, 48), Image.Resampling.NEAREST).save(path, kind, quality=95)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Six photos, one of them in a sub folder."""
    root = tmp_path / "photos"
    for number in range(5):
        write_photo(root, b"%d.jpg" % number, number)
    write_photo(root, b"sub/5.png", 5)
    return root


@pytest.fixture
def library(root: Path, encoder: Encoder) -> Iterator[Library]:
    """The six photos, indexed, open for writing."""
    with Library.create(root, encoder) as library:
        library.update()
        yield library


def indexed(library: Library) -> set[bytes]:
    return {photo.path for photo in library.index.photos("indexed")}


def best_match(library: Library, name: bytes) -> bytes:
    with Image.open(library.root / os.fsdecode(name)) as image:
        return library.search([image.convert("RGB")], k=1)[0].photo.path


def test_every_photo_is_indexed_and_finds_itself(library: Library) -> None:
    assert indexed(library) == {b"0.jpg", b"1.jpg", b"2.jpg", b"3.jpg", b"4.jpg", b"sub/5.png"}
    for name in indexed(library):
        assert best_match(library, name) == name
    photo = next(library.index.photos())
    assert (photo.width, photo.height, photo.taken_at) == (64, 48, None)
    assert photo.content_hash
    assert library.index.verify() == []


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


def test_a_missing_folder_is_an_error_and_changes_nothing(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    with Library.create(root, encoder, tmp_path / "index") as library:
        library.update()
        root.rename(tmp_path / "unplugged")
        with pytest.raises(NoPhotos, match="connect the drive"):
            library.update(prune=True)
        assert len(indexed(library)) == 6
        (tmp_path / "unplugged").rename(root)
        assert library.update().unchanged == 6


def test_another_encoder_is_refused_with_both_fingerprints(library: Library, encoder: Encoder, tmp_path: Path) -> None:
    other = make_encoder(1)
    other.save(tmp_path / "other")
    with pytest.raises(EncoderMismatch, match=f"{encoder.fingerprint}.*{other.fingerprint}.*leave out --encoder"):
        library.keep_encoder(other)
    library.close()
    with pytest.raises(EncoderMismatch) as error:
        Library.open_or_create(library.root, str(tmp_path / "other"))
    assert error.value.exit_code == 4
    shutil.rmtree(library.index.folder / "encoder")
    shutil.copytree(tmp_path / "other", library.index.folder / "encoder")
    with Library.open(library.root) as tampered, pytest.raises(EncoderMismatch):
        tampered.search([Image.new("RGB", (40, 40))], k=1)


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


def test_which_encoder_is_taken_and_why(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(NoEncoder, match=r"mocosearch train.*moco-v2-800ep"):
        Library.open_or_create(root)
    user_folders.set_current_encoder(tmp_path / "run")
    with pytest.raises(NoEncoder, match="is gone"):
        Library.open_or_create(root)
    assert not (root / ".mocosearch").exists()
    encoder.save(tmp_path / "run" / "encoder")
    library, why = Library.open_or_create(root)
    assert (library.encoder.fingerprint, why) == (encoder.fingerprint, "trained last")
    library.update()
    library.close()
    make_encoder(2).save(tmp_path / "newer")
    user_folders.set_current_encoder(tmp_path / "newer")
    library, why = Library.open_or_create(root)
    assert (library.encoder.fingerprint, why) == (encoder.fingerprint, "recorded in the index")
    library.close()
    library, why = Library.open_or_create(root, index_dir=tmp_path / "second", encoder=str(tmp_path / "newer"))
    assert (library.encoder.fingerprint, why) != (encoder.fingerprint, "as named")
    library.close()


def test_a_library_whose_encoder_was_lost_takes_it_again_when_named(library: Library, encoder: Encoder) -> None:
    library.close()
    shutil.rmtree(library.index.folder / "encoder")
    with Library.open(library.root) as without, pytest.raises(NoEncoder, match="--encoder"):
        without.search([Image.new("RGB", (40, 40))], k=1)
    with Library.open(library.root, writable=True) as again:
        again.keep_encoder(encoder)
        assert best_match(again, b"0.jpg") == b"0.jpg"


@pytest.mark.parametrize("damage", ["killed while copying", "card", "tensors", "another"])
def test_a_damaged_copy_of_the_encoder_is_made_again_when_it_is_named(
    library: Library, encoder: Encoder, tmp_path: Path, damage: str
) -> None:
    library.close()
    copy = library.index.folder / "encoder"
    if damage in ("card", "killed while copying"):
        (copy / "encoder.json").unlink()
    if damage == "killed while copying":
        (copy / "model.safetensors").rename(copy / ".model.safetensors.01234567.partial")
    if damage == "tensors":
        os.truncate(copy / "model.safetensors", 100_000)
    if damage == "another":
        make_encoder(1).save(copy)
    else:
        with (
            Library.open(library.root) as damaged,
            pytest.raises(NoEncoder, match=f"--encoder E, naming {encoder.fingerprint}"),
        ):
            damaged.search([Image.new("RGB", (40, 40))], k=1)
    encoder.save(tmp_path / "named")
    healed, _ = Library.open_or_create(library.root, str(tmp_path / "named"))
    with healed:
        assert best_match(healed, b"0.jpg") == b"0.jpg"
    assert sorted(path.name for path in copy.iterdir()) == ["encoder.json", "model.safetensors"]


def snapshot(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


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


def test_a_bad_encoder_leaves_no_library_bound_to_it(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    bad = make_encoder(3)
    torch.nn.init.constant_(next(bad.network.parameters()), float("nan"))
    with Library.create(root, bad) as library, pytest.raises(BadCheckpoint):
        library.update()
    assert not (root / ".mocosearch").exists()
    with Library.create(root, encoder) as library:
        assert library.update().embedded == 6


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


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a file system in memory with these options."""
    disk = tmp_path / "disk"

    def mount(options: str) -> Path:
        disk.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot mount here (needs root): {done.stderr.strip()}")
        return disk

    yield mount
    subprocess.run(["umount", "-l", str(disk)], check=False, capture_output=True)


def test_a_disk_that_fills_up_keeps_what_was_committed(
    root: Path, encoder: Encoder, mounted: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_work, "COMMIT_SECONDS", 0.0)
    disk = mounted("size=64m")
    ballast = disk / "ballast"

    def fill(progress: Progress) -> None:
        if progress.done == 3:
            ballast.write_bytes(bytes(shutil.disk_usage(disk).free))

    with Library.create(root, encoder, disk / "index") as library, pytest.raises(DiskFull, match="free some space"):
        library.update(fill)
    with Library.open(root, disk / "index") as library:
        kept = len(indexed(library))
        assert kept >= 3
        assert library.index.verify() == []
    ballast.unlink()
    with Library.open(root, disk / "index", writable=True) as library:
        assert library.update().embedded == 6 - kept
        assert len(indexed(library)) == 6


def test_no_space_for_the_encoder_leaves_no_index(root: Path, encoder: Encoder, mounted: Callable[[str], Path]) -> None:
    disk = mounted("size=20m")
    with pytest.raises(DiskFull):
        Library.create(root, encoder, disk / "index")
    assert list(disk.iterdir()) == []


def test_a_read_only_folder_gets_its_index_elsewhere(
    root: Path, encoder: Encoder, mounted: Callable[[str], Path], tmp_path: Path
) -> None:
    disk = mounted("size=2m")
    shutil.copytree(root, disk / "photos")
    mounted("remount,ro")
    with pytest.raises(NotWritable, match="--index-dir"):
        Library.create(disk / "photos", encoder)
    with Library.create(disk / "photos", encoder, tmp_path / "index") as library:
        assert library.update().embedded == 6
        assert best_match(library, b"1.jpg") == b"1.jpg"
