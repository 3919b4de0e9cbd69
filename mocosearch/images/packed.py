"""Reading packed photos: where their pixels lie, and what is cut from them. numpy only: a reader starts quickly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch_index.records import FileStamp

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class PackedPhoto:
    """Where the pixels of a photo lie in the pack."""

    stamp: FileStamp
    start: int  # bytes
    height: int
    width: int


def map_pixels(path: Path) -> Pixels:
    """Map the pixels of all photos of a pack, one flat read-only array."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r")


def places_of(photos: Sequence[PackedPhoto]) -> NDArray[np.int64]:
    """Return start, height and width of each photo, (N, 3): all that is needed to read it."""
    return np.array([(photo.start, photo.height, photo.width) for photo in photos], dtype=np.int64).reshape(-1, 3)


def images_at(pixels: Pixels, places: NDArray[np.int64]) -> Iterator[Pixels]:
    """Yield the image at each of `places` (N, 3) as a view (height, width, 3) of the mapped pixels."""
    for start, height, width in places.tolist():
        yield pixels[start : start + 3 * height * width].reshape(height, width, 3)


def images_of(pixels: Pixels, photos: Sequence[PackedPhoto]) -> Iterator[Pixels]:
    """Yield each photo as a view (height, width, 3) of the mapped pixels."""
    return images_at(pixels, places_of(photos))


def cut(images: Sequence[Pixels], boxes: NDArray[np.int64]) -> list[Pixels]:
    """Cut each image's box (top, left, height, width); nothing is copied."""
    return [
        image[top : top + height, left : left + width]
        for image, (top, left, height, width) in zip(images, boxes.tolist(), strict=True)
    ]


def write_flat(crops: Sequence[Pixels], out: Pixels) -> int:
    """Write the bytes of one crop after the other to `out` and return how many they are."""
    end = 0
    for crop in crops:
        start, end = end, end + crop.size
        out[start:end].reshape(crop.shape)[:] = crop
    return end
