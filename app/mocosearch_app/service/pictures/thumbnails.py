"""Small pictures for the page: re-encoded without metadata, made when first asked for, kept privately."""

import hashlib
import hmac
import io
import os
import re
import secrets
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from PIL import Image

from mocosearch.images.decode import DecodedImage
from mocosearch_app.service.pictures.file_cache import LIMIT, UNWRITABLE, FileCache
from mocosearch_app.service.pictures.once import Once
from mocosearch_app.service.private import private_folder
from mocosearch_index.atomic import atomic_write, not_writable
from mocosearch_index.records import Photo

_QUALITY = 80
_EFFORT = 2  # of WebP's 6: half the time of the usual 4, for files that are a few percent larger
_KEY_BYTES = 32
_NAME = re.compile(r"(?P<id>[0-9a-f]{1,15})-(?P<seal>[0-9a-f]{32})")


class Kind(Enum):
    """What a small picture is for; the value is the length of its longer side in pixels."""

    THUMBNAIL = 512  # sharp in a row 240 pixels high on a screen of double density
    PREVIEW = 1600  # fills the panel with the details of a photo

    @property
    def short_side(self) -> int:
        """What is asked of the decoder: enough up to an aspect ratio of 4:3."""
        return self.value * 3 // 4


class Thumbnails:
    """The small pictures of one library's photos. Safe to use from many threads.

    A name is the photo's id and a keyed hash of id, content and kind, so that nobody can guess the name of a photo
    that was not shown to them, and a photo that changes gets a new name.
    """

    def __init__(self, folder: Path, key: bytes, limit: int = LIMIT) -> None:
        """`limit`: bytes of all files that are kept in `folder`."""
        self._files = FileCache(folder, limit)
        self._key = key
        self._once: Once[bytes] = Once()

    @classmethod
    def of_library(cls, index_folder: Path) -> "Thumbnails":
        """Open the thumbnails of the library whose index is in `index_folder`: they lie in a folder there.

        Where nothing can be written there, they live in the process's temporary folder.
        """
        try:
            return cls._inside(index_folder)
        except UNWRITABLE:
            return cls._inside(private_folder())

    @classmethod
    def _inside(cls, parent: Path) -> "Thumbnails":
        folder = parent / "thumbnails"
        folder.mkdir(mode=0o700, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise not_writable(folder)
        return cls(folder, _key(folder / "key"))

    def name(self, photo: Photo, kind: Kind) -> str:
        """Return the name under which the page asks for a small picture of `photo`."""
        return f"{photo.id:x}-{self._seal(photo, kind)}"

    @staticmethod
    def photo_id(name: str) -> int | None:
        """Return the id in a well-formed name, None for anything else. The name may still be forged."""
        match = _NAME.fullmatch(name)
        return int(match["id"], 16) if match else None

    def is_genuine(self, name: str, photo: Photo, kind: Kind) -> bool:
        """Tell whether `name` was given by this library for `photo` as it is now."""
        return hmac.compare_digest(name.encode(), self.name(photo, kind).encode())

    def get(self, photo: Photo, kind: Kind, original: Path, decode: Callable[[Path, int], DecodedImage]) -> bytes:
        """Return a small picture of `photo` as WebP, made from the file `original` if there is none yet.

        `decode` is given a file and the short side that is enough. Raises Undecodable when it can no longer be read.
        """
        seal = self._seal(photo, kind)

        def kept_or_made() -> bytes:
            kept = self._files.read(seal)
            if kept is not None and _is_whole(kept):
                return kept
            made = encode(decode(original, kind.short_side).image, kind)
            self._files.write(seal, made)
            return made

        return self._once(seal, kept_or_made)

    def _seal(self, photo: Photo, kind: Kind) -> str:
        content = photo.content_hash or photo.path
        subject = b"%d:%d:%b" % (kind.value, photo.id, content)
        return hashlib.blake2b(subject, key=self._key, digest_size=16).hexdigest()


def encode(image: Image.Image, kind: Kind) -> bytes:
    """Return `image` (RGB) as WebP of at most the side of `kind`, never enlarged, without any metadata."""
    small = image.copy()
    small.thumbnail((kind.value, kind.value), Image.Resampling.LANCZOS)
    small.info.clear()
    data = io.BytesIO()
    small.save(data, "WEBP", quality=_QUALITY, method=_EFFORT, exif=b"", icc_profile=b"", xmp=b"")
    return data.getvalue()


def _is_whole(data: bytes) -> bool:
    """Whether a file is WebP and as long as it says: a full disk or lost power may have cut it."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP" and int.from_bytes(data[4:8], "little") == len(data) - 8


def _key(path: Path) -> bytes:
    """Read the key of a library's thumbnails, made once."""
    key = path.read_bytes() if path.exists() else b""
    if len(key) != _KEY_BYTES:
        key = secrets.token_bytes(_KEY_BYTES)
        atomic_write(path, key)
    return key
