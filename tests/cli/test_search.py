"""`search` as a person types it: every way to name a picture, filters, and what goes to which stream."""

import json
import os
import pty
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

SIZES = Preprocessing(36, 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
Search = Callable[..., tuple[str, str]]
TAKEN_TAG = 0x0132
ODD = os.fsdecode(b"2024/caf\xe9\n.jpg")


def write_photo(path: Path, seed: int, taken: str | None = None) -> None:
    """Write a picture of colored patches that no other seed gives."""
    path.parent.mkdir(parents=True, exist_ok=True)
    patches = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    exif = Image.Exif()
    if taken:
        exif[TAKEN_TAG] = taken
    Image.fromarray(patches).resize((64, 48), Image.Resampling.NEAREST).save(path, "JPEG", quality=95, exif=exif)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven photos in two folders, an index of them, and a copy of one elsewhere. Tests leave them as they are."""
    root = tmp_path_factory.mktemp("base") / "photos"
    for seed, (name, taken) in enumerate(
        {
            "2023/a.jpg": "2023:06:30 23:59:59",
            "2023/b.jpg": "2023:07:01 00:00:00",
            "2024/c.jpg": "2024:02:29 12:00:00",
            "2024/d.jpg": None,
            ODD: None,
            "20/e.jpg": None,
            "f.jpg": "2025:01:01 00:00:00",
        }.items()
    ):
        write_photo(root / name, seed, taken)
    torch.manual_seed(0)
    card = EncoderCard("resnet18", False, 128, "dice", 8, 0, "none", "")
    with Library.create(root, Encoder(build_backbone("resnet18"), card, SIZES, torch.device("cpu"))) as library:
        library.update()
    shutil.copy(root / "f.jpg", root.parent / "copy.jpg")
    write_photo(root.parent / "new.jpg", 99)
    return root


@pytest.fixture
def search(indexed: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Search:
    """Type `mocosearch search` in the folder of the photos."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(indexed.parent / "home"))

    def run(*arguments: str | Path, code: int = 0, cwd: Path = indexed) -> tuple[str, str]:
        monkeypatch.chdir(cwd)
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["search", *map(str, arguments)])
        out, err = (stream.decode("utf-8", "surrogateescape") for stream in capfdbinary.readouterr())
        assert (end.value.code or 0) == code, err
        return out, err

    return run


def found(out: str, root: Path) -> list[str]:
    """Return the paths of `--json`, relative to the root."""
    return [str(Path(hit["path"]).relative_to(root)) for hit in json.loads(out)]


def test_a_photo_of_the_library_is_left_out_and_a_copy_elsewhere_finds_it(search: Search, indexed: Path) -> None:
    paths = found(search("f.jpg", "--json")[0], indexed)
    assert len(paths) == 6
    assert "f.jpg" not in paths
    [best, *others] = json.loads(search("../copy.jpg", "--json")[0])
    assert (best["path"], best["score"]) == (str(indexed / "f.jpg"), pytest.approx(1, abs=1e-3))
    assert [hit["path"] for hit in others] == [str(indexed / path) for path in paths]


def test_a_photo_may_be_named_as_the_library_names_it(search: Search, indexed: Path, tmp_path: Path) -> None:
    by_path = search("2024/c.jpg", "--json")[0]
    assert search("2024/c.jpg", "--json", "--library", indexed, cwd=tmp_path)[0] == by_path
    (tmp_path / "link").symlink_to(indexed)
    assert search(tmp_path / "link" / "2024" / "c.jpg", "--json")[0] == by_path
    write_photo(tmp_path / "2024" / "c.jpg", 5)  # the content of 20/e.jpg: a file that is here goes before
    assert found(search("2024/c.jpg", "--json", "--library", indexed, cwd=tmp_path)[0], indexed)[0] == "20/e.jpg"


@pytest.mark.parametrize("query", [["f.jpg"], ["../copy.jpg"], ["f.jpg", "2024/c.jpg", "--not", "2023/a.jpg"]])
def test_what_the_library_holds_loads_no_torch(indexed: Path, query: list[str]) -> None:
    program = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
        "from mocosearch.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "search", *query]
    done = subprocess.run(command, cwd=indexed, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False"
    assert done.stdout


def test_the_bytes_of_a_picture_come_on_stdin(indexed: Path) -> None:
    command = [sys.executable, "-m", "mocosearch", "search", "-", "-k", "1"]
    done = subprocess.run(command, cwd=indexed, input=(indexed / "f.jpg").read_bytes(), capture_output=True, check=True)
    assert done.stdout == os.fsencode(indexed / "f.jpg") + b"\n"
    done = subprocess.run(command, cwd=indexed, input=b"", capture_output=True, check=False)
    assert done.returncode == 1
    assert b"\nstdin: The picture cannot be used: it holds no bytes" in done.stderr


@pytest.mark.parametrize(("score", "count"), [("-1", 2), ("1", 0)])
def test_a_terminal_shows_a_table_unless_nothing_is_found(indexed: Path, score: str, count: int) -> None:
    reader, terminal = pty.openpty()
    command = [sys.executable, "-m", "mocosearch", "search", "f.jpg", "-k", "2", "--min-score", score]
    subprocess.run(command, cwd=indexed, stdout=terminal, stderr=subprocess.DEVNULL, check=True)
    os.write(terminal, b"END")
    shown = os.read(reader, 10_000).decode()
    assert ("Score" in shown) == (count > 0)
    assert shown.count(".jpg") == count


def test_several_pictures_are_averaged_and_others_subtracted(search: Search, indexed: Path, tmp_path: Path) -> None:
    for name in ("f.jpg", "20/e.jpg"):
        shutil.copy(indexed / name, tmp_path / Path(name).name)
    f, e = tmp_path / "f.jpg", tmp_path / "e.jpg"
    assert set(found(search(f, e, "--json", "-k", "2")[0], indexed)) == {"f.jpg", "20/e.jpg"}
    assert found(search(f, "--not", e, "--json")[0], indexed)[-1] == "20/e.jpg"
    out, err = search(f, "--not", f)
    assert out == ""
    assert "Nothing found" in err


def test_a_part_of_a_picture_is_searched_with(search: Search, indexed: Path, tmp_path: Path) -> None:
    large = Image.new("RGB", (200, 100), "white")
    with Image.open(indexed / "2024/d.jpg") as part:
        large.paste(part, (120, 40))
    large.save(tmp_path / "large.png")
    for crop in ("120,40,64,48", "60%,40%,32%,48%"):
        [hit] = json.loads(search(tmp_path / "large.png", "--crop", crop, "-k", "1", "--json")[0])
        assert (hit["path"], hit["score"]) == (str(indexed / "2024/d.jpg"), pytest.approx(1, abs=1e-3))
    assert "2024/d.jpg" not in found(search("2024/d.jpg", "--crop", "0,0,60,40", "--json")[0], indexed)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--folder", "2024"], {"2024/c.jpg", "2024/d.jpg", ODD}),
        (["--folder", "20"], {"20/e.jpg"}),
        (["--since", "2023-07", "--until", "2024-02"], {"2023/b.jpg", "2024/c.jpg"}),
        (["--until", "2023-06-30"], {"2023/a.jpg"}),
        (["--since", "2024"], {"2024/c.jpg", "f.jpg"}),
        (["--since", "2024", "--folder", "2023"], set()),
        (["--min-score", "0.999"], {"f.jpg"}),
    ],
)
def test_filters_let_pass_what_they_say(search: Search, indexed: Path, filters: list[str], expected: set[str]) -> None:
    out, err = search("../copy.jpg", "--json", *filters)
    assert set(found(out, indexed)) == expected
    assert ("passes the filters. No date filter passes photos without a date." in err) == (not expected)


def test_a_folder_may_be_named_from_where_one_stands(search: Search, indexed: Path) -> None:
    for name in (".", indexed / "2024", "../2024/"):
        out, _ = search("../../copy.jpg", "--json", "--folder", name, cwd=indexed / "2024")
        assert len(json.loads(out)) == 3


def test_paths_are_separated_by_nul_where_asked_for(search: Search, indexed: Path) -> None:
    out, _ = search("../copy.jpg", "-0", "--folder", "2024")
    assert out.endswith("\0")
    assert set(out.split("\0")[:-1]) == {str(indexed / name) for name in ("2024/c.jpg", "2024/d.jpg", ODD)}


def test_a_picture_that_is_new_is_embedded(search: Search, indexed: Path) -> None:
    assert len(found(search("../new.jpg", "--json")[0], indexed)) == 7


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "Missing argument 'IMAGE...'"),
        (["nowhere.jpg"], 1, "There is no file 'nowhere.jpg'"),
        (["2024"], 1, "'2024' is a folder: name the picture to search with."),
        (["f.jpg", "--not", "nowhere.jpg"], 1, "There is no file 'nowhere.jpg'"),
        (["f.jpg", "--crop", "1,2"], 2, "write x,y,w,h"),
        (["f.jpg", "--crop", "0,0,65,10"], 1, "64 x 48 pixels"),
        (["f.jpg", "2024/c.jpg", "--crop", "0,0,9,9"], 2, "one IMAGE only"),
        (["f.jpg", "--since", "last May"], 2, "write one as 2024"),
        (["f.jpg", "--folder", "2022"], 1, "no photos in a folder '2022'"),
        (["f.jpg", "--min-score", "2"], 2, "not in the range"),
        (["f.jpg", "--json", "-0"], 2, "name one"),
        (["-", "--not", "-"], 2, "can be given once"),
    ],
)
def test_wrong_input_is_named_in_one_line(search: Search, arguments: list[str], code: int, words: str) -> None:
    out, err = search(*arguments, code=code)
    assert out == ""
    assert words in err.splitlines()[-1]
