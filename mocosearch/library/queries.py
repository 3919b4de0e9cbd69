"""What a search goes by: pictures, photos of the library and vectors; parts of pictures, and dates."""

import calendar
from dataclasses import dataclass
from datetime import datetime
from typing import Self, TypeAlias

import numpy as np
from PIL import Image

from mocosearch.errors import BadCrop
from mocosearch_index.records import Float32

PhotoId: TypeAlias = int | np.integer  # ids may come out of an array
Example: TypeAlias = Image.Image | PhotoId | Float32
"""A picture (RGB, upright), the id of a photo of the library, or a vector (dim,) of its encoder."""

_LENGTHS = (4, 7, 10, 16, 19)  # of a year, month, day, minute, second


def first_and_last_second(date: str) -> tuple[str, str]:
    """Return the first and the last second ("YYYY-MM-DDTHH:MM:SS") of a year, month, day, minute or second; ValueError.

    `date` is as much of that form as is known.
    """
    first = date + "0000-01-01T00:00:00"[len(date) :]
    start = datetime.fromisoformat(first)
    if len(date) not in _LENGTHS or start.isoformat() != first:
        raise ValueError(f"{date!r} ends within a number")
    days = calendar.monthrange(start.year, start.month)[1]
    return first, date + f"{start.year:04}-12-{days}T23:59:59"[len(date) :]


@dataclass(frozen=True, slots=True)
class Crop:
    """A part of a picture. Each measure is (number, whether it is percent of the side and not pixels)."""

    left: tuple[float, bool]
    top: tuple[float, bool]
    width: tuple[float, bool]
    height: tuple[float, bool]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "x,y,w,h", each a number of pixels or, with a % sign, of percent; ValueError."""
        measures = [(float(part.strip().removesuffix("%")), part.strip().endswith("%")) for part in text.split(",")]
        if len(measures) != 4 or not all(np.isfinite(number) and number >= 0 for number, _ in measures):
            raise ValueError(f"{text!r} is not four numbers of at least 0")
        return cls(*measures)

    def of(self, image: Image.Image) -> Image.Image:
        """Cut it out of `image`; BadCrop when it is less than a pixel or reaches beyond the picture."""
        left, width = (_pixels(measure, image.width) for measure in (self.left, self.width))
        top, height = (_pixels(measure, image.height) for measure in (self.top, self.height))
        box = (round(left), round(top), round(left + width), round(top + height))
        if not (box[0] < box[2] <= image.width and box[1] < box[3] <= image.height):
            raise BadCrop(
                f"The part {box[2] - box[0]} x {box[3] - box[1]} at {box[0]},{box[1]} is empty or lies outside of the "
                f"picture, which has {image.width} x {image.height} pixels: give x,y,w,h within it."
            )
        return image.crop(box)


def _pixels(measure: tuple[float, bool], side: int) -> float:
    number, is_percent = measure
    return number * side / 100 if is_percent else number
