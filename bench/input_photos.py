"""Photos as a phone takes them: 12 megapixels, JPEG of quality 92, several megabytes of structure and noise each."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIZE = (4000, 3000)
_SCENES = 4  # of which every photo is a mixture of two, shifted
_OCTAVES = ((5, 70.0), (25, 45.0), (120, 30.0), (600, 18.0))  # cells across, amplitude: as in nature, finer is fainter
_GRAIN = 7.0  # standard deviation of the sensor's noise


def write_photos(folder: Path, count: int, *, size: tuple[int, int] = SIZE) -> None:
    """Write `count` photos into the class folder `folder/photos`; those that are there already stay."""
    target = folder / "photos"
    target.mkdir(parents=True, exist_ok=True)
    missing = [number for number in range(count) if not (target / f"{number:04}.jpg").exists()]
    scenes = [_scene(np.random.default_rng(number), size) for number in range(_SCENES)] if missing else []
    for number in missing:
        rng = np.random.default_rng([1, number])
        first, second = rng.choice(_SCENES, 2, replace=False)
        offset = tuple(rng.integers(0, side) for side in size[::-1])
        other = np.roll(scenes[second], offset, axis=(0, 1))
        share = rng.uniform(0.3, 0.7)
        pixels = np.clip(share * scenes[first] + (1 - share) * other, 0, 255).astype(np.uint8)
        partial = target / f"{number:04}.partial"
        Image.fromarray(pixels).save(partial, "jpeg", quality=92)
        partial.rename(target / f"{number:04}.jpg")


def _scene(rng: np.random.Generator, size: tuple[int, int]) -> NDArray[np.float32]:
    """Return float32 (height, width, 3): color patches of all sizes, and grain."""
    width, height = size
    pixels = rng.normal(120, _GRAIN, (height, width, 3)).astype(np.float32)
    for cells, amplitude in _OCTAVES:
        coarse = rng.normal(0, 1, (max(1, cells * height // width), cells, 3))
        for channel in range(3):
            layer = Image.fromarray(coarse[..., channel].astype(np.float32))
            pixels[..., channel] += amplitude * np.asarray(layer.resize(size, Image.Resampling.BICUBIC))
    return pixels
