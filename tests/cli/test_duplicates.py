"""`mocosearch duplicates` as a person types it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.nets import build_backbone
from tests.cli.commands import Mocosearch, write_photos


@pytest.fixture(scope="module")
def mocosearch(tmp_path_factory: pytest.TempPathFactory) -> Mocosearch:
    return Mocosearch(tmp_path_factory.mktemp("duplicates"))


@pytest.fixture(scope="module")
def photos(mocosearch: Mocosearch) -> Path:
    """An indexed folder: eight photos, one with an identical copy whose name is odd, one with a small one."""
    photos = write_photos(mocosearch.folder / "photos", 8)
    shutil.copy(photos / "0.png", photos / "0\nagain.png")
    patches = np.random.default_rng(1).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    large = Image.fromarray(patches).resize((160, 120), Image.Resampling.NEAREST)
    large.save(photos / "large.bmp")
    large.resize((120, 90), Image.Resampling.BICUBIC).save(photos / "small.jpg", quality=90)
    torch.manual_seed(0)
    card = EncoderCard("resnet18", False, 128, "nothing", 0, 0, "untrained", "")
    sizes = Preprocessing(36, 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    Encoder(build_backbone("resnet18"), card, sizes, torch.device("cpu")).save(mocosearch.folder / "encoder")
    mocosearch("index", photos, "--encoder", mocosearch.folder / "encoder")
    return photos


def test_identical_photos_are_listed_with_the_one_to_keep_first(mocosearch: Mocosearch, photos: Path) -> None:
    out, err = mocosearch("duplicates", photos, "--identical")
    assert out.splitlines() == [str(photos / "0.png"), str(photos / "0") + "\\nagain.png"]
    assert "1 copies of 1 of 11 photos" in err


def test_without_copies_it_says_so(mocosearch: Mocosearch, photos: Path) -> None:
    alone = shutil.copytree(photos, mocosearch.folder / "alone")
    (alone / "0\nagain.png").unlink()
    mocosearch("index", alone)
    out, err = mocosearch("duplicates", alone, "--identical")
    assert out == ""
    assert "no copies among 10 photos" in err


def test_near_duplicates_come_with_how_sure_they_are(mocosearch: Mocosearch, photos: Path) -> None:
    out, err = mocosearch("duplicates", photos, "--json")
    report = json.loads(out)
    assert "of made copies are found" in err
    assert report["calibration"]["upright"]["precision"] >= 0.95
    assert report["turned"]
    near, same = report["groups"]
    assert (near["identical"], Path(near["keep"]["path"]).name, near["keep"]["why"]) == (
        False,
        "large.bmp",
        "most pixels",
    )
    [small] = near["copies"]
    assert (Path(small["path"]).name, small["identical"], small["turn"]) == ("small.jpg", False, None)
    assert (same["identical"], same["copies"][0]["likeness"]) == (True, 1.0)
    assert report["bytes_to_gain"] == sum(copy["size"] for group in report["groups"] for copy in group["copies"])
    assert all(path.exists() for path in (photos / "0\nagain.png", photos / "small.jpg"))


def test_groups_are_parted_by_an_empty_line(mocosearch: Mocosearch, photos: Path) -> None:
    out, _ = mocosearch("duplicates", photos, "--no-turned")
    first, second = out.strip().split("\n\n")
    assert first.splitlines() == [str(photos / "large.bmp"), str(photos / "small.jpg")]
    assert len(second.splitlines()) == 2


@pytest.mark.parametrize("options", [("--threshold", "1.5"), ("--identical", "--turned"), ("--threshold", "nan")])
def test_options_that_make_no_sense_are_usage_errors(
    mocosearch: Mocosearch, photos: Path, options: tuple[str, ...]
) -> None:
    _, err = mocosearch("duplicates", photos, *options, code=2)
    assert "Error: " in err
