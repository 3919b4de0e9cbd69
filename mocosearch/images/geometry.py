"""Which part of a picture a network sees, and at what size. Knows no torch: the processes that decode use it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image


@dataclass(frozen=True)
class Geometry:
    """Short side to `resize` pixels (bicubic, antialiased), then the center, `crop` x `crop` pixels."""

    resize: int  # at least `crop`
    crop: int

    def cut(self, image: Image.Image) -> NDArray[np.uint8]:
        """Cut a picture (RGB, any size): uint8 (crop, crop, 3)."""
        scale = min(image.size) / self.resize  # pixels of the picture per pixel of the input
        # Resized and cropped in one go: a picture of 1 x 30,000 pixels is never blown up whole.
        left, top = ((round(side / scale) - self.crop) // 2 * scale for side in image.size)
        box = (left, top, min(left + self.crop * scale, image.width), min(top + self.crop * scale, image.height))
        return np.array(image.resize((self.crop, self.crop), Image.Resampling.BICUBIC, box=box, reducing_gap=3.0))
