"""Files whose content the index knows: moved, renamed, copied or only touched, they need no encoder.

A file is read for its hash only when a photo of the same size is known.
"""

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mocosearch.images.prepared import file_hash
from mocosearch.update.scan import Found, is_below
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import FileStamp, KnownFile, Photo


@dataclass(frozen=True, slots=True)
class Moved:
    """The file is a photo that has left its place, or (`is_touched`) has only another time."""

    photo: Photo
    is_touched: bool


@dataclass(frozen=True, slots=True)
class SameContent:
    """The file has the content of `photo`, whose own place is another one."""

    photo: Photo
    has_left: bool  # the photo is gone from its place: this is a move to where another photo was


def recognize(
    index: ImageIndex, stamps: Iterable[FileStamp], known: Mapping[bytes, KnownFile], found: Found
) -> Iterator[tuple[FileStamp, Moved | SameContent | None]]:
    """Yield each file of `stamps` with what it is, None for a content that is not known.

    What is yielded may be committed at any time. Each photo moves once; a second file of its content is a copy.
    """
    sizes = index.sizes()
    there = {stamp.path for stamp in found.files} if sizes else set()
    root = index.root.absolute()
    taken: set[int] = set()
    for stamp in stamps:
        content_hash = _hash(root / os.fsdecode(stamp.path), stamp) if stamp.size in sizes else None
        photos = [] if content_hash is None else index.with_content(content_hash)
        free = [
            photo
            for photo in photos
            if photo.id not in taken and photo.path not in there and not is_below(photo.path, found.unreadable)
        ]
        match = _match(stamp, photos, free, known)
        if isinstance(match, Moved):
            taken.add(match.photo.id)
        yield stamp, match


def _match(
    stamp: FileStamp, photos: list[Photo], free: list[Photo], known: Container[bytes]
) -> Moved | SameContent | None:
    """Choose among `photos` of the same content; `free`: those that have left their places."""
    here = next((photo for photo in photos if photo.path == stamp.path), None)
    if here is not None:
        return Moved(here, is_touched=True)
    if free:
        # Of several copies that moved together each should keep its name.
        name = os.path.basename(stamp.path)  # noqa: PTH119 - bytes paths
        best = next((photo for photo in free if os.path.basename(photo.path) == name), free[0])  # noqa: PTH119
        return SameContent(best, has_left=True) if stamp.path in known else Moved(best, is_touched=False)
    return SameContent(photos[0], has_left=False) if photos else None


def _hash(path: Path, stamp: FileStamp) -> bytes | None:
    """Return the hash of a file's content, as `mocosearch.images.prepared` makes it; None when it is not as `stamp`."""
    try:
        # Not blocking: a pipe may have taken the file's place.
        with open(path, "rb", 0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            content_hash = file_hash(file)
            status = os.fstat(file.fileno())
    except OSError:  # who embeds it finds out why
        return None
    return content_hash if (status.st_size, status.st_mtime_ns) == stamp[1:] else None
