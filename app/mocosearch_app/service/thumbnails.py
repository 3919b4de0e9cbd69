"""Small pictures for the page: re-encoded without metadata, made when first asked for, kept privately."""

import hashlib
import hmac
import io
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from PIL import Image

from mocosearch.images.decode import DecodedImage
from mocosearch_app.service.private import private_folder
from mocosearch_index.atomic import atomic_write
from mocosearch_index.errors import DiskFull, NotWritable, StorageFailed
from mocosearch_index.records import Photo

SIDE = 512  # pixels of the longer side: sharp in a row 240 pixels high on a screen of double density
SHORT_SIDE = 384  # what is asked of the decoder: enough for SIDE up to an aspect ratio of 4:3
_QUALITY = 80
_UNWRITABLE = (DiskFull, NotWritable, StorageFailed)
_KEY_BYTES = 32
_NAME = re.compile(r"(?P<id>[0-9a-f]{1,15})-(?P<seal>[0-9a-f]{32})")


class Thumbnails:
    """The thumbnails of one library.

    A name is the photo's id and a keyed hash of id and content, so that nobody can guess the name of a photo
    that was not shown to them, and a photo that changes gets a new name.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder = folder
        self._key = key

    @classmethod
    def of_library(cls, index_folder: Path) -> "Thumbnails":
        """Open the thumbnails of the library whose index is in `index_folder`: they lie in a folder there.

        Where nothing can be written there, they live in the process's temporary folder.
        """
        try:
            return cls._inside(index_folder)
        except (OSError, *_UNWRITABLE):
            return cls._inside(private_folder())

    @classmethod
    def _inside(cls, parent: Path) -> "Thumbnails":
        folder = parent / "thumbnails"
        folder.mkdir(mode=0o700, exist_ok=True)
        return cls(folder, _key(folder / "key"))

    def name(self, photo: Photo) -> str:
        """Return the name under which the page asks for the thumbnail of `photo`."""
        return f"{photo.id:x}-{self._seal(photo)}"

    @staticmethod
    def photo_id(name: str) -> int | None:
        """Return the id in a well-formed name, None for anything else. The name may still be forged."""
        match = _NAME.fullmatch(name)
        return int(match["id"], 16) if match else None

    def is_genuine(self, name: str, photo: Photo) -> bool:
        """Tell whether `name` was given by this library for `photo` as it is now."""
        return hmac.compare_digest(name.encode(), self.name(photo).encode())

    def get(self, photo: Photo, original: Path, decode: Callable[[Path, int], DecodedImage]) -> bytes:
        """Return the thumbnail of `photo` as WebP, made from the file `original` if there is none yet.

        `decode` is given a file and the short side that is enough. Raises Undecodable when it can no longer be read.
        """
        stored = self._folder / f"{self._seal(photo)}.webp"
        with suppress(FileNotFoundError):
            return stored.read_bytes()
        data = encode(decode(original, SHORT_SIDE).image)
        with suppress(OSError, *_UNWRITABLE):  # a cache that cannot be written only costs time
            atomic_write(stored, data)
        return data

    def _seal(self, photo: Photo) -> str:
        content = photo.content_hash or photo.path
        return hashlib.blake2b(b"%d:%b" % (photo.id, content), key=self._key, digest_size=16).hexdigest()


def encode(image: Image.Image) -> bytes:
    """Return `image` (RGB) as WebP of at most SIDE pixels, never enlarged, without any metadata."""
    small = image.copy()
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    small.info.clear()
    data = io.BytesIO()
    small.save(data, "WEBP", quality=_QUALITY, method=4, exif=b"", icc_profile=b"", xmp=b"")
    return data.getvalue()


def _key(path: Path) -> bytes:
    """Read the key of a library's thumbnails, made once."""
    key = path.read_bytes() if path.exists() else b""
    if len(key) != _KEY_BYTES:
        key = secrets.token_bytes(_KEY_BYTES)
        atomic_write(path, key)
    return key
