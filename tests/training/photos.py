"""Small photos and a small recipe for training tests."""

from pathlib import Path

import numpy as np
from PIL import Image

from mocosearch.recipes import Recipe, load_recipe


def write_photos(folder: Path) -> None:
    """Write 24 different photos, the same at every call."""
    rng = np.random.default_rng(0)
    for number in range(24):
        coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
        coarse.resize((40, 32), Image.Resampling.BICUBIC).save(folder / f"{number:02}.png")


def load_tiny_recipe() -> Recipe:
    """Return a recipe of 12 quick steps over those photos."""
    tiny = ("backbone.architecture=resnet18", "views.crop=16", "batch=8", "schedule.epochs=4", "encoder_input.crop=32")
    return load_recipe("demo", tiny)
