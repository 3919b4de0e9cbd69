"""Small pictures inside the report: decoded in processes of their own, re-encoded without any metadata."""

import base64
import io
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from mocosearch.images.decode import Undecodable
from mocosearch.images.decode_pool import DecodePool
from mocosearch.images.geometry import Geometry

SIDE = 128  # pixels: sharp at the 96 of a phone, and some 4 kB each
_QUALITY = 75
_AHEAD = 64


def pictures(photos: Mapping[int, Path]) -> dict[int, str]:
    """Return the middle square of each photo as a `data:` address; one that cannot be read any more is not there."""
    with DecodePool() as pool:
        prepared = pool.prepare(photos.items(), Geometry(SIDE, SIDE), _AHEAD)
        return {
            place: _address(Image.fromarray(square.pixels))
            for place, square in prepared
            if not isinstance(square, Undecodable)
        }


def _address(image: Image.Image) -> str:
    data = io.BytesIO()
    image.save(data, "WEBP", quality=_QUALITY)  # made of bare pixels: it has no metadata to lose
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"
