from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch.recipes import Recipe, load_recipe


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(24):
        coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
        coarse.resize((40, 32), Image.Resampling.BICUBIC).save(folder / f"{number:02}.png")
    return folder


@pytest.fixture
def tiny_recipe() -> Recipe:
    return load_recipe("demo", ["views.crop=16", "batch=8", "schedule.epochs=4", "encoder_input.crop=32"])
