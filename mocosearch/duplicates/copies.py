"""Copies of a photo as people make them, and whether two pictures show the same to the eye."""

from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from mocosearch.duplicates.turns import TURNS
from mocosearch.images.decode import decode
from mocosearch.randomness import uniforms

KINDS = ("half the size", "recompressed", "cropped", "brighter or darker")
_QUALITY = 40
_LONGEST = 65_500  # pixels of a JPEG's side
_CUT = 0.1  # of each side
_BRIGHTNESS = 0.2
_SIDE = 16
_SAME = 0.95
_UNSEEN = 3.0  # of 255


def copies_of(picture: Image.Image, key: int) -> dict[str, Image.Image]:
    """Return a copy of each of KINDS; where it is cropped and how bright it is follows from `key`."""
    half = [max(1, side // 2) for side in picture.size]
    x, y, light = uniforms(key, count=3)
    left, top = (int(share * _CUT * side) for share, side in zip((x, y), picture.size, strict=True))
    kept = [max(1, round(side * (1 - _CUT))) for side in picture.size]
    factor = 1 + _BRIGHTNESS if light < 0.5 else 1 - _BRIGHTNESS
    made = (
        picture.resize((half[0], half[1]), Image.Resampling.BICUBIC),
        recompressed(picture),
        picture.crop((left, top, left + kept[0], top + kept[1])),
        ImageEnhance.Brightness(picture).enhance(factor),
    )
    return dict(zip(KINDS, made, strict=True))


def recompressed(picture: Image.Image) -> Image.Image:
    """Return the picture after a strong JPEG compression; of a longer one as much as a JPEG holds."""
    file = BytesIO()
    picture.crop((0, 0, min(picture.width, _LONGEST), min(picture.height, _LONGEST))).save(
        file, "JPEG", quality=_QUALITY
    )
    return Image.open(file).convert("RGB")


def turned_copy(picture: Image.Image, key: int) -> Image.Image:
    """Return a recompressed copy in one of the seven other turns, which follows from `key`."""
    turn, _ = TURNS[1 + int(uniforms(key, count=1)[0] * (len(TURNS) - 1))]
    assert turn is not None  # only the first is upright
    return recompressed(picture).transpose(turn)


def thumbnail(path: Path) -> NDArray[np.float32]:
    """Return the whole picture as RGB (16, 16, 3) of 0 .. 255; Undecodable."""
    picture = decode(path, short_side=4 * _SIDE).image
    return np.asarray(picture.resize((_SIDE, _SIDE), Image.Resampling.BOX), np.float32)


def look_the_same(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    """Tell whether two thumbnails are alike to the eye in some turn: no encoder has to tell such photos apart.

    They are when their structure correlates, or when nothing differs that could be seen, as in two flat skies.
    """
    turns = [np.rot90(mirrored, quarter) for mirrored in (one, one[:, ::-1]) for quarter in range(4)]
    return any(_correlation(turn, other) >= _SAME or _difference(turn, other) <= _UNSEEN for turn in turns)


def _correlation(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    one, other = (pixels - pixels.mean(axis=(0, 1)) for pixels in (one, other))
    return float((one * other).sum() / max(np.linalg.norm(one) * np.linalg.norm(other), 1.0))


def _difference(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.mean((one - other) ** 2)))
