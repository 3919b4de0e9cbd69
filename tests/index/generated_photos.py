"""Photos made from nothing but their path and version, so that any process can tell what must be stored.

As a program it commits such photos until it is killed: `generated_photos.py FOLDER FIRST PHOTOS_A_COMMIT`.
"""

import os
import sys
import zlib
from pathlib import Path

import numpy as np

from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, EncoderIdentity, FileStamp, Float32, SkippedPhoto

DIM = 24
ENCODER = EncoderIdentity("0123456789abcdef", DIM, "a network made of dice")
CAT, DOG, ELK = b"cat.jpg", b"dog.jpg", b"elk.jpg"


def vector(path: bytes, version: int = 0) -> Float32:
    """Return the unit vector of this content."""
    numbers = np.random.default_rng(zlib.crc32(b"%d of %s" % (version, path))).standard_normal(DIM)
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def photo(path: bytes, version: int = 0) -> EmbeddedPhoto:
    """Return the photo at `path` in one of its versions."""
    stamp = FileStamp(path, size=1000 + version, mtime_ns=version)
    return EmbeddedPhoto(stamp, b"%d of %s" % (version, path), 640, 480, None, vector(path, version))


def broken(path: bytes, version: int = 0) -> SkippedPhoto:
    """Return the file at `path` as one that cannot be read."""
    return SkippedPhoto(FileStamp(path, 10, version), "truncated", "ends in the middle", "decoder 1")


def id_of(index: ImageIndex, path: bytes) -> int:
    """Return the id of the photo at `path`, which is known."""
    found = index.photo_at(path)
    assert found is not None
    return found.id


def batch(number: int, size: int) -> list[EmbeddedPhoto]:
    """Return the photos of commit `number`."""
    return [photo(b"%d/%d.jpg" % (number, place)) for place in range(size)]


def assert_stored(index: ImageIndex, versions: dict[bytes, int]) -> None:
    """Check that the index holds and finds exactly the photos in `versions`."""
    assert_contents(index, {path: (path, version) for path, version in versions.items()})


def assert_contents(index: ImageIndex, contents: dict[bytes, tuple[bytes, int]]) -> None:
    """Check that the index holds and finds exactly these photos: by path, the first path and version of its content."""
    photos = {found.path: found for found in index.photos("indexed")}
    assert photos.keys() == contents.keys()
    if not contents:
        return
    wanted = np.stack([vector(*contents[path]) for path in photos])
    assert np.abs(index.vectors([found.id for found in photos.values()]) - wanted).max() < 1e-3
    nearest = [index.photo(hits[0][0]).path for hits in index.search(wanted, 1)]
    assert [contents[path] for path in nearest] == [contents[path] for path in photos]
    assert all(hits[0][1] > 0.998 for hits in index.search(wanted, 1))


def main(folder: Path, first: int, size: int) -> None:
    """Commit without end; say so on stdout after each commit."""
    with ImageIndex.open(folder, writable=True) as index:
        number = first
        while True:
            index.commit(batch(number, size))
            os.write(1, b"%d\n" % number)
            number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
