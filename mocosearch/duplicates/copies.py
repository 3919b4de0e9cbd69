"""Copies of a photo as people make them, how they can lie, and whether two pictures show the same to the eye."""

from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from mocosearch.images.decode import decode
from mocosearch.randomness import uniforms

Float32 = NDArray[np.float32]
Thumbnails = NDArray[np.uint8]  # (10, 16, 16, 3) RGB

# The eight ways in which a picture can lie. In words: how a copy lies when the original is upright.
TURNS: tuple[tuple[Image.Transpose | None, str], ...] = (
    (None, "upright"),
    (Image.Transpose.ROTATE_90, "turned left"),
    (Image.Transpose.ROTATE_180, "upside down"),
    (Image.Transpose.ROTATE_270, "turned right"),
    (Image.Transpose.FLIP_LEFT_RIGHT, "mirrored"),
    (Image.Transpose.TRANSPOSE, "mirrored and turned left"),
    (Image.Transpose.FLIP_TOP_BOTTOM, "mirrored and upside down"),
    (Image.Transpose.TRANSVERSE, "mirrored and turned right"),
)
KINDS = ("half the size", "recompressed", "cropped", "brighter or darker")
_QUALITY = 40
_LONGEST = 65_500  # pixels of a JPEG's side
_CUT = 0.1  # of each side
_BRIGHTNESS = 0.2
_SIDE = 16
_SAME = 0.94
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


def thumbnails(path: Path) -> Thumbnails:
    """Return the whole picture, and with a tenth of each side cut off, in nine ways.

    Undecodable.
    """
    picture = decode(path, short_side=4 * _SIDE).image
    width, height = picture.size
    cuts = [(x * _CUT / 2, y * _CUT / 2) for x in range(3) for y in range(3)]
    boxes = [(x * width, y * height, (x + 1 - _CUT) * width, (y + 1 - _CUT) * height) for x, y in cuts]
    made = [picture.resize((_SIDE, _SIDE), Image.Resampling.BOX, box) for box in ((0, 0, width, height), *boxes)]
    return np.stack([np.asarray(image) for image in made])


def look_the_same(one: Thumbnails, other: Thumbnails) -> bool:
    """Tell from their thumbnails whether two pictures are alike to the eye: no encoder has to tell such photos apart.

    They are when, in some turn and with some margin of one cut off, their structure correlates, or when nothing differs
    that could be seen, as in two flat skies.
    """
    pixels, others = one.astype(np.float32), other.astype(np.float32)
    turns = np.stack([np.rot90(side, turn, (1, 2)) for side in (pixels, pixels[:, :, ::-1]) for turn in range(4)])
    differs = np.sqrt(((turns[:, 0] - others[0]) ** 2).mean(axis=(1, 2, 3))).min()
    left, right = _structure(turns), _structure(others)  # (8, 10, 768), (10, 768)
    return bool(max((left[:, 0] @ right.T).max(), (left @ right[0]).max()) >= _SAME or differs <= _UNSEEN)


def _structure(pixels: Float32) -> Float32:
    rows = (pixels - pixels.mean(axis=(-3, -2), keepdims=True)).reshape(*pixels.shape[:-3], -1)
    unit: Float32 = rows / np.linalg.norm(rows, axis=-1, keepdims=True).clip(1)
    return unit
