"""A photo made ready for a network by one reading of its file."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b, file_digest
from io import BufferedReader, FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch.images.decode import decode, read_file
from mocosearch.images.geometry import Geometry

HASH_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays have no single truth value
class Prepared:
    """What a network needs of a photo, and what its file says; `width` and `height` in pixels, upright."""

    pixels: NDArray[np.uint8]  # (crop, crop, 3)
    content_hash: bytes
    width: int
    height: int
    taken_at: str | None  # "YYYY-MM-DDTHH:MM:SS"


def content_hash(data: bytes) -> bytes:
    """Return what tells contents of files apart: HASH_BYTES of blake2b."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


def file_hash(file: FileIO | BufferedReader) -> bytes:
    """Return the `content_hash` of what an open file holds from here on."""
    return file_digest(file, partial(blake2b, digest_size=HASH_BYTES)).digest()


def prepare(path: Path, geometry: Geometry, giants: AbstractContextManager[object]) -> Prepared:
    """Read the file once, for its hash and its pixels: they are of the same content even if it changes meanwhile.

    `giants` is entered while a giant picture is decoded. Raises Undecodable.
    """
    data = read_file(path)
    decoded = decode(data, short_side=geometry.resize, giants=giants)
    pixels = geometry.cut(decoded.image)
    return Prepared(pixels, content_hash(data), decoded.width, decoded.height, decoded.taken_at)
