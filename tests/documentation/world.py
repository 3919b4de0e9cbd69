"""What the pages take for granted: a folder with photos, an encoder that was trained and an index, all of them tiny."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch import user_folders
from mocosearch.encoders import load_encoder
from mocosearch.errors import Interrupted
from mocosearch.find_library import FOLDER, remember_library
from mocosearch.library import Library
from mocosearch.nets import build_backbone
from mocosearch.recipes import load_recipe
from mocosearch.training.prepare import new_run
from mocosearch.training.run import Run
from tests.documentation.pages import blocks, name

PICTURES = ("beach.jpg", "a.jpg", "b.jpg", "c.jpg", "query.png", "query.jpg")  # to search with
PHOTOS = (
    *(f"photos/2024/{number}.jpg" for number in range(5)),
    *(f"photos/beach/{number}.jpg" for number in range(5)),
    *(f"photos/{letter}.png" for letter in "abcd"),
)
LABELLED = tuple(f"labelled/{kind}/{number}.png" for kind in ("owl", "heron") for number in range(5))
FROM_NOTHING = frozenset({"README.md"})  # pages that begin with photos alone
_TAKEN_TAG = 0x0132


def make_world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write all that any page takes for granted to `folder`/world, and return that."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(folder / "home"))
    folder = folder / "world"
    rng = np.random.default_rng(0)
    exif = Image.Exif()
    exif[_TAKEN_TAG] = "2024:05:31 18:30:00"
    for number, path in enumerate((*PICTURES, *PHOTOS, *LABELLED)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
        coarse.resize((80 + number, 64), Image.Resampling.BICUBIC).save(folder / path, exif=exif)
    (folder / "pairs.csv").write_text("one,other\na.png,b.png\n")
    (folder / "labels.csv").write_text("path,label\na.png,owl\nb.png,owl\nc.png,heron\nd.png,heron\n")
    torch.save({"state_dict": build_backbone("resnet18").state_dict()}, folder / "last.ckpt")
    encoder = _new_run(folder).train(on_step=lambda report: None)
    with Library.create(folder / "photos", load_encoder(encoder)) as library:
        library.update()
    return folder


def copy_world(world: Path, page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the world for one page to `folder`/world, with a home of its own in `folder`/home, and return it."""
    here = Path(shutil.copytree(world, folder / "world"))
    monkeypatch.setenv("MOCOSEARCH_HOME", str(folder / "home"))
    if name(page) in FROM_NOTHING:
        shutil.rmtree(here / "runs")
        shutil.rmtree(here / "photos" / FOLDER)
        return here
    user_folders.set_current_encoder(here / "runs" / "mine" / "encoder")
    remember_library(here / "photos", here / "photos" / FOLDER)
    if any("--resume" in line for block in blocks(page) if block.runs for line in block.lines):
        _stop_a_training(here)
    return here


def _new_run(here: Path) -> Run:
    """A run of a few quick steps on the photos, in runs/mine."""
    sizes = ["views.crop=16", "batch=7", "schedule.epochs=1", "encoder_input.resize=36", "encoder_input.crop=32"]
    recipe = load_recipe("moco_v2_small", ["backbone.architecture=resnet18", *sizes])
    mine = here / "runs" / "mine"
    return new_run(here / "photos", recipe, recipe_name="moco_v2_small", folder=mine, minutes=None, workers=0)


def _stop_a_training(here: Path) -> None:
    """Leave two unfinished runs: runs/mine and a newer one."""
    shutil.rmtree(here / "runs")
    run = _new_run(here)
    with pytest.raises(Interrupted):
        run.train(on_step=lambda report: None, stop=lambda: True)
    newer = shutil.copytree(run.folder.path, here / "runs" / "moco_v2_small-20260101-000000")
    (newer / "run.json").touch()
