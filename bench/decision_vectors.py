"""What an encoder gives for photos and for copies of some of them, cut in several ways: embedded once, kept as .npy."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from mocosearch.duplicates.copies import KINDS, copies_of, turned_copy
from mocosearch.encoders import Encoder
from mocosearch.images.decode import decode
from mocosearch.images.geometry import Geometry

Float32 = NDArray[np.float32]
Cut = Callable[[Image.Image, int], NDArray[np.uint8]]  # a picture and a number of pixels -> (pixels, pixels, 3)

COPIES = (*KINDS, "turned or mirrored")
_BATCH_PIXELS = 16 * 224**2


def squash(picture: Image.Image, size: int) -> NDArray[np.uint8]:
    """Return the whole picture as a square."""
    return np.array(picture.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=3.0))


CUTS: dict[str, Cut] = {
    "7/8 of the center": lambda picture, size: Geometry(round(size * 8 / 7), size).cut(picture),
    "center": lambda picture, size: Geometry(size, size).cut(picture),
    "whole, squashed": squash,
}


@dataclass(frozen=True, slots=True)
class Photos:
    """Photos, and which of them are copied in each of COPIES."""

    paths: list[Path]  # n
    copied: NDArray[np.int64]  # (c,) places in `paths`

    @classmethod
    def of(cls, paths: list[Path], copied: int) -> "Photos":
        """Copy so many, evenly picked."""
        return cls(paths, np.linspace(0, len(paths) - 1, min(copied, len(paths))).round().astype(np.int64))

    @property
    def count(self) -> int:
        """How many pictures there are, with the copies."""
        return len(self.paths) + len(COPIES) * len(self.copied)

    def pictures(self, size: int) -> Iterator[Image.Image]:
        """Yield the photos, then the copies of the first one that is copied, those of the second, and so on."""
        for path in self.paths:
            yield decode(path, short_side=2 * size).image
        for place in self.copied.tolist():
            picture = decode(self.paths[place], short_side=2 * size).image
            yield from copies_of(picture, place).values()
            yield turned_copy(picture, place)


def features(folder: Path, photos: Photos, encoder: Encoder, cut: str, mirrored: bool = False) -> Float32:
    """Return what the network gives, not scaled, for all pictures (count, dim), at the size of the encoder's crop.

    It is kept in `folder`; ValueError when what was kept there is of other photos.
    """
    file = folder / f"{cut.replace('/', ' of ')}{', mirrored' if mirrored else ''}.npy"
    if not file.exists():
        partial = file.with_suffix(".partial.npy")
        folder.mkdir(parents=True, exist_ok=True)
        np.save(partial, _embed(photos, encoder, cut, mirrored))
        partial.rename(file)
    made: Float32 = np.load(file)
    if made.shape != (photos.count, encoder.dim):
        raise ValueError(f"{file} holds vectors of shape {made.shape}, not of these {photos.count} pictures: remove it")
    return made


def _embed(photos: Photos, encoder: Encoder, cut: str, mirrored: bool) -> Float32:
    size = encoder.preprocessing.crop
    prepared = (CUTS[cut](picture, size) for picture in photos.pictures(size))
    parts: list[Float32] = []
    done = 0
    while batch := list(islice(prepared, max(1, _BATCH_PIXELS // size**2))):
        pixels = torch.from_numpy(np.stack(batch)).permute(0, 3, 1, 2)
        parts.append(encoder.inference(pixels.flip(3) if mirrored else pixels).numpy())
        done += len(batch)
        if done // 1000 > (done - len(batch)) // 1000:
            print(f"{cut}{', mirrored' if mirrored else ''}: {done} of {photos.count}", file=sys.stderr)
    return np.concatenate(parts)
