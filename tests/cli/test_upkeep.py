"""`status`, `verify` and `compact` as a person types them, on libraries to which something happened."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.cli import main
from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.library import Library
from mocosearch.nets import build_backbone
from mocosearch.user_folders import set_current_encoder
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, EncoderIdentity, FileStamp, IndexSettings, SearchSettings

SIZES = Preprocessing(36, 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
Type = Callable[..., tuple[str, str]]


def make_encoder(seed: int) -> Encoder:
    torch.manual_seed(seed)
    card = EncoderCard("resnet18", False, 128, "dice", 8, 7, "none", "")
    return Encoder(build_backbone("resnet18"), card, SIZES, torch.device("cpu"))


def write_photo(path: Path, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, quality=95)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six photos and a text, indexed."""
    root = tmp_path_factory.mktemp("template") / "photos"
    root.mkdir()
    for number in range(6):
        write_photo(root / f"{number}.jpg", number)
    (root / "text.jpg").write_text("Dear diary")
    with Library.create(root, make_encoder(0)) as library:
        library.update()
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    """A library of one's own."""
    return Path(shutil.copytree(template, tmp_path / "photos"))


@pytest.fixture
def type_(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Type a command in the folder of the photos."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(root)

    def run(*arguments: str | Path, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*map(str, arguments)])
        assert (end.value.code or 0) == code
        return tuple(capsys.readouterr())

    return run


def flip(path: Path, at: int) -> None:
    """Flip one bit."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def own_encoder(root: Path) -> Path:
    return root / ".mocosearch" / "encoder"


def test_status_tells_what_has_changed_in_the_folder_since(type_: Type, root: Path, tmp_path: Path) -> None:
    assert "Folder   as it was indexed\n" in type_("status")[0]
    write_photo(root / "new.jpg", 7)
    write_photo(root / "0.jpg", 8)
    (root / "1.jpg").unlink()
    (root / "2.jpg").rename(tmp_path / "2.jpg")
    assert "Folder   1 new, 1 changed, 2 gone since it was indexed: run `mocosearch index`\n" in type_("status")[0]
    with Library.open(root, writable=True) as library:
        library.update()
    (tmp_path / "2.jpg").rename(root / "2.jpg")
    status = json.loads(type_("status", "--json")[0])
    assert status["since_indexed"] == {"new": 0, "changed": 0, "gone": 0, "returned": 1, "unreadable": 0}
    assert status["counts"] == {"indexed": 5, "skipped": 1, "missing": 2}


def test_status_says_so_when_the_folder_is_not_there(type_: Type, root: Path, tmp_path: Path) -> None:
    shutil.move(root / ".mocosearch" / "encoder", tmp_path / "encoder")
    with Library.create(root, make_encoder(0), tmp_path / "index") as library:
        library.update()
    root.rename(tmp_path / "elsewhere")
    out, _ = type_("status", tmp_path / "index")
    assert "Photos   6 indexed, 1 skipped, 0 missing" in out
    assert "Folder   cannot be looked at. There is no folder" in out
    assert json.loads(type_("status", tmp_path / "index", "--json")[0])["since_indexed"] is None


def test_status_tells_how_it_is_searched_what_was_chosen_and_where_the_bytes_are(type_: Type, root: Path) -> None:
    out, _ = type_("status")
    assert "Search   exact, 6 vectors of 512 numbers, not whitened, " in out
    assert "Settings" not in out
    with ImageIndex.open(root / ".mocosearch", writable=True) as index:
        index.set_settings(IndexSettings(SearchSettings(dim=4, whiten=False), exclude=("raw files/",)))
        index.save_search_file()
    out, _ = type_("status")
    assert "Settings --dim 4 --no-whiten --exclude 'raw files/'\n" in out
    status = json.loads(type_("status", "--json")[0])
    assert status["settings"]["search"] == {"level": None, "dim": 4, "whiten": False}
    parts = status["size_by_part"]
    assert parts["encoder"] == sum(path.stat().st_size for path in own_encoder(root).iterdir())
    assert parts["vectors"] > 6 * 512 * 2
    assert status["size_on_disk"] == sum(parts.values())


def test_status_tells_how_many_true_neighbors_an_approximate_search_finds(type_: Type, tmp_path: Path) -> None:
    folder, rng = tmp_path / "many" / ".mocosearch", np.random.default_rng(0)
    with ImageIndex.create(folder, root=folder.parent, encoder=EncoderIdentity("0" * 16, 16, "dice")) as index:
        vectors = rng.normal(size=(5000, 16)).astype(np.float32)
        photos = enumerate(vectors)
        index.commit([EmbeddedPhoto(FileStamp(b"%d" % id_, 1, 1), b"", 1, 1, None, vector) for id_, vector in photos])
        index.set_settings(IndexSettings(SearchSettings(level="ivf")))
        index.save_search_file()
    out, _ = type_("status", folder)
    report = json.loads(type_("status", folder, "--json")[0])["search"]
    assert "Settings --search ivf\n" in out
    assert f"{report['cells_visited']} of {report['cells']} cells visited" in out
    assert f"recall@10 {report['recall_at_10']:.3f} against exact search" in out
    assert 0.98 <= report["recall_at_10"] <= 1


@pytest.mark.parametrize("at", [100, -300, -10])
def test_status_is_not_misled_by_a_damaged_search_file(type_: Type, root: Path, at: int) -> None:
    before = type_("status")[0]
    [search] = (root / ".mocosearch").glob("search-*.faiss")
    flip(search, at)
    assert type_("status")[0] == before


def test_status_tells_of_another_encoder_that_was_trained_last(type_: Type, root: Path, tmp_path: Path) -> None:
    newer = make_encoder(1)
    newer.save(tmp_path / "newer")
    set_current_encoder(tmp_path / "newer")
    out = type_("status")[0]
    assert f"another one was trained last [{newer.fingerprint}]; to use it, delete '{root / '.mocosearch'}' and" in out
    assert json.loads(type_("status", "--json")[0])["newer_encoder"] == newer.fingerprint


def test_verify_finds_a_sound_library_sound(type_: Type) -> None:
    assert type_("verify")[0] == "All is as it was written.\n"
    assert json.loads(type_("verify", "--json")[0]) == []


def test_verify_forgets_a_damaged_vector_and_the_next_update_embeds_it_again(type_: Type, root: Path) -> None:
    [vectors] = (root / ".mocosearch").glob("vectors-*.f16")
    flip(vectors, -20)
    out, _ = type_("verify")
    assert out.startswith("Repaired ")
    assert "'5.jpg'" in out
    assert "5 indexed, 2 skipped" in type_("status")[0]
    assert "1 changed" in type_("status")[0]
    with Library.open(root, writable=True) as library:
        assert library.update().embedded == 1
        assert library.verify() == []


@pytest.mark.parametrize("keep", [1000, 30, 0])
def test_verify_mends_an_index_whose_vector_file_was_cut_off(type_: Type, root: Path, keep: int) -> None:
    [vectors] = (root / ".mocosearch").glob("vectors-*.f16")
    os.truncate(vectors, keep)
    problems = json.loads(type_("verify", "--json")[0])
    assert problems
    assert all(problem["repaired"] for problem in problems)
    assert type_("verify")[0] == "All is as it was written.\n"
    with Library.open(root, writable=True) as library:
        assert library.update().embedded == 6
        assert library.search([1], k=1)


@pytest.mark.parametrize("damage", ["weights", "words", "number", "gone"])
def test_verify_looks_at_the_encoder_and_copies_it_again_where_it_can(
    type_: Type, root: Path, tmp_path: Path, damage: str
) -> None:
    if damage == "weights":
        flip(own_encoder(root) / "model.safetensors", -5000)
    elif damage in ("words", "number"):
        card = own_encoder(root) / "encoder.json"
        flip(card, card.read_bytes().index(b"dice" if damage == "words" else b"28,"))  # of a feature_dim of 128
    else:
        shutil.rmtree(own_encoder(root))
    out, _ = type_("verify", code=1)
    [line] = out.splitlines()
    assert line.startswith("Broken   The copy of the encoder")
    assert "--encoder E, naming " in line
    make_encoder(0).save(tmp_path / "trained")
    set_current_encoder(tmp_path / "trained")
    [problem] = json.loads(type_("verify", "--json")[0])
    assert problem["repaired"]
    assert type_("verify")[0] == "All is as it was written.\n"


def test_verify_names_some_of_many_problems(root: Path, type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mocosearch.cli.verify._LISTED", 2)
    vectors = root / ".mocosearch" / "vectors-000001.f16"
    vectors.unlink()
    lines = type_("verify")[0].splitlines()
    assert len(lines) == 3
    assert lines[-1] == "Repaired 5 more (`--json` lists all)"  # a missing file, and six vectors


def test_verify_only_looks_while_another_process_writes(type_: Type, root: Path) -> None:
    [vectors] = (root / ".mocosearch").glob("vectors-*.f16")
    flip(vectors, -20)
    with Library.open(root, writable=True):
        out, err = type_("verify", code=1)
    assert "Nothing is repaired" in err
    assert out.startswith("Broken ")
    assert type_("verify")[0].startswith("Repaired ")


def test_compact_forgets_what_is_gone_and_searching_goes_on(type_: Type, root: Path) -> None:
    with Library.open(root) as reader:
        for number in range(3):
            (root / f"{number}.jpg").unlink()
        with Library.open(root, writable=True) as library:
            library.update()
        [old] = (root / ".mocosearch").glob("vectors-*.f16")
        before = old.stat().st_size
        report = json.loads(type_("compact", "--json")[0])
        assert (report["forgotten"], report["rows_dropped"]) == (3, 3)
        assert report["bytes_freed"] > 3 * 512 * 2
        [new] = (root / ".mocosearch").glob("vectors-*.f16")
        assert new.stat().st_size < before
        reader.index.refresh()
        assert {hit.photo.path for hit in reader.search([4])} == {b"4.jpg", b"5.jpg"}
    assert type_("verify")[0] == "All is as it was written.\n"
    assert "3 indexed, 1 skipped, 0 missing" in type_("status")[0]
    assert type_("compact")[0].startswith("0.0 MB given back: 0 photos that are gone were forgotten, 0 vectors dropped")


@pytest.mark.parametrize("command", ["status", "compact"])
def test_what_needs_no_encoder_loads_no_torch(root: Path, command: str) -> None:
    program = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
        "from mocosearch.cli import main; main()"
    )
    environment = os.environ | {"MOCOSEARCH_HOME": str(root.parent / "home")}
    arguments = [sys.executable, "-c", program, command, str(root)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False"


@pytest.mark.parametrize("command", ["status", "verify", "compact"])
def test_a_folder_without_an_index_is_one_line(type_: Type, tmp_path: Path, command: str) -> None:
    out, err = type_(command, tmp_path, code=1)
    assert out == ""
    assert "has no index" in err.splitlines()[-1]
