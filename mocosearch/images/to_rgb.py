"""From any mode that Pillow decodes to upright 8-bit sRGB over white, reduced on the way."""

from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_PROFILE_MODES = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK", "Lab": "LAB"}
_TOPS = (1.0, 255.0, 4095.0, 65535.0)
_PIXELS_OF_A_STRIP = 1 << 22


def to_rgb(image: Image.Image, short_side: int | None, orientation: int) -> Image.Image:
    """Convert a loaded image to RGB, reduce it to `short_side` if it is larger and turn it upright.

    It is reduced as early as possible: the rest then works on few pixels.
    """
    profile = image.info.get("icc_profile")
    image = reduce_to(_with_smooth_values(image), short_side)
    if image.mode == "RGBA":
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image).convert("RGB")
    image = _to_srgb(image, profile)
    return image.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else image


def reduce_to(image: Image.Image, short_side: int | None) -> Image.Image:
    """Reduce (bicubic, antialiased) until the short side is `short_side`; smaller images stay as they are."""
    short = min(image.size)
    if short_side is None or short <= short_side:
        return image
    size = [max(short_side, round(side * short_side / short)) for side in image.size]
    # First by whole factors, to three times the size or more: several times faster, and no difference to see.
    return image.resize((size[0], size[1]), Image.Resampling.BICUBIC, reducing_gap=3.0)


def _with_smooth_values(image: Image.Image) -> Image.Image:
    """Replace modes whose values must not be averaged, or are not 8-bit: gives L, RGB, RGBA, CMYK or LAB."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _gray_from_wide(image)
    if image.has_transparency_data and image.mode != "RGBA":  # which would be copied
        return image.convert("RGBA")
    if image.mode == "1":
        return image.convert("L")
    return image if image.mode in ("L", "RGB", "RGBA", "CMYK", "LAB") else image.convert("RGB")


def _gray_from_wide(image: Image.Image) -> Image.Image:
    """Scale gray values of more than 8 bits to L.

    Microscopes and scanners store 12 bits in 16: white is the top of the smallest usual depth that holds all
    values (1.0 for floats; 8, 12, 16 bits), else the largest value.
    """
    largest = max(float(values.max()) for _, values in _strips(image))
    tops = _TOPS if image.mode == "F" else _TOPS[1:]
    top = next((top for top in tops if largest <= top), largest)
    gray = Image.new("L", image.size)
    for row, values in _strips(image):
        values *= 255.0 / top
        gray.paste(Image.fromarray(np.clip(values + 0.5, 0, 255).astype(np.uint8)), (0, row))
    return gray


def _strips(image: Image.Image) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Finite values of some rows at a time, with the first row: as floats a giant would be gigabytes."""
    width, height = image.size
    rows = max(1, _PIXELS_OF_A_STRIP // width)
    for row in range(0, height, rows):
        strip = np.array(image.crop((0, row, width, min(row + rows, height))), dtype=np.float32)
        yield row, np.nan_to_num(strip, copy=False, nan=0.0, posinf=0.0, neginf=0.0)


def _to_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    if profile:
        try:
            mode, transform = _transform(profile)
            if mode == "RGB":  # often given for gray pictures too
                image = image.convert("RGB")
            if mode == image.mode:
                converted = ImageCms.applyTransform(image, transform)
                assert converted is not None  # it is only None when converting in place
                return converted
        except (ImageCms.PyCMSError, OSError, LookupError, ValueError, TypeError):
            pass  # a broken profile is no reason to lose the picture
    return image.convert("RGB")


@lru_cache(maxsize=16)  # building one takes longer than applying it, and a folder's photos share a few
def _transform(profile: bytes) -> tuple[str, ImageCms.ImageCmsTransform]:
    """Return the mode that the profile is for, and its way to sRGB."""
    source = ImageCms.ImageCmsProfile(BytesIO(profile))
    mode = _PROFILE_MODES[source.profile.xcolor_space.strip()]
    return mode, ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
