"""`index` with what a library keeps of the flags, and `index --watch`."""

import json
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.cli import main
from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.nets import build_backbone
from mocosearch_index.errors import IndexLocked
from mocosearch_index.image_index import ImageIndex
from tests.cli.commands import Mocosearch


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    card = EncoderCard("resnet18", False, 128, "dice", 8, 0, "none", "")
    sizes = Preprocessing(36, 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    Encoder(build_backbone("resnet18"), card, sizes, torch.device("cpu")).save(folder)
    return folder


def write_photo(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (24, 32, 3), dtype=np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for seed, name in enumerate(("a.png", "raw/b.png", ".hidden/c.png")):
        write_photo(tmp_path / "photos" / name, seed)
    return tmp_path / "photos"


Command = Callable[..., tuple[str, str]]


@pytest.fixture
def mocosearch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Type a command in this process, which has torch loaded already."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))

    def run(*arguments: str | Path, code: int = 0) -> tuple[str, str]:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert (end.value.code or 0) == code, err
        return out, err

    return run


def test_patterns_and_search_are_kept_shown_replaced_and_cleared(
    mocosearch: Command, photos: Path, encoder: Path
) -> None:
    index = ("index", photos, "--json")
    flags = ("--exclude", "/raw", "--include", ".hidden/", "--dim", "8", "--no-whiten", "--search", "exact")
    out, err = mocosearch(*index, "--encoder", encoder, *flags)
    assert json.loads(out)["counts"]["indexed"] == 2
    assert "Settings --search exact --dim 8 --no-whiten --include .hidden/ --exclude /raw" in err
    report = json.loads(mocosearch(*index)[0])
    assert (report["unchanged"], report["settings"]["exclude"]) == (2, ["/raw"])
    assert report["settings"]["search"] == {"level": "exact", "dim": 8, "whiten": False}
    out, err = mocosearch(*index, "--exclude", "", "--include", "", "--dim", "0", "--whiten", "--search", "auto")
    report = json.loads(out)
    assert (report["embedded"], report["missing"], report["left_out"]) == (1, 1, 1)
    assert "Settings" not in err
    out, _ = mocosearch("index", photos, "--exclude", "b.png")
    assert out.endswith("are in the index (1 unchanged, 1 left out)\n")


def test_strict_is_refused_where_it_could_do_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["index", str(tmp_path), "--watch", "--strict"])
    assert end.value.code == 2
    assert "leave out --watch" in capsys.readouterr().err


def test_settings_that_cannot_be_are_one_line_and_change_nothing(
    mocosearch: Command, photos: Path, encoder: Path
) -> None:
    create = ("index", photos, "--encoder", encoder)
    assert "from 1 to 512" in mocosearch(*create, "--dim", "513", code=1)[1]
    assert "A pattern in --exclude means nothing" in mocosearch(*create, "--exclude", "!", code=1)[1]
    assert not (photos / ".mocosearch").exists()
    mocosearch(*create)
    assert "from 1 to 512" in mocosearch("index", photos, "--dim", "513", code=1)[1]
    assert "Settings" not in mocosearch("index", photos)[1]


class Watching:
    """A running `index --watch --json`, whose lines are read as they come."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def next(self) -> Any:
        return json.loads(self._lines.get(timeout=120))

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(120)
        self._reader.join()
        assert self.process.stderr is not None
        return code, self.process.stderr.read()


def wait_for_the_lock(folder: Path) -> None:
    """Open an index for writing, which can be done only while no other process updates it."""
    for _ in range(600):
        with suppress(IndexLocked), ImageIndex.open(folder, writable=True):
            return
        time.sleep(0.1)
    pytest.fail("the index stayed locked")


def test_a_watched_library_follows_its_folder_and_lets_others_in(tmp_path: Path, photos: Path, encoder: Path) -> None:
    watching = Watching(Mocosearch(tmp_path).start("index", photos, "--encoder", encoder, "--watch", "--json"))
    try:
        assert watching.next()["embedded"] == 2
        write_photo(photos / "new" / "d.png", 4)
        assert watching.next()["embedded"] == 1
        (photos / "new").rename(photos / "renamed")
        report = watching.next()
        assert (report["moved"], report["embedded"]) == (1, 0)
        wait_for_the_lock(photos / ".mocosearch")
        (photos / "a.png").unlink()
        assert watching.next()["missing"] == 1
    finally:
        code, err = watching.end()
    assert code == 0, err
    assert "Watching" in err
    assert "Traceback" not in err
