"""Pictures that were uploaded to search with: a few, in memory only, gone when the server stops."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from PIL import Image

from mocosearch.images.decode import DecodedImage

KEPT = 64  # the latest; each takes some hundred kilobytes


@dataclass(frozen=True, slots=True)
class Upload:
    """A picture to search with, reduced to what the encoder sees; `width` and `height` of the original."""

    image: Image.Image
    preview: bytes  # WebP
    width: int
    height: int


class Uploads:
    """The latest uploads by a token that nobody can guess. Safe to use from many threads."""

    def __init__(self) -> None:
        self._uploads: OrderedDict[str, Upload] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, decoded: DecodedImage, preview: bytes) -> str:
        """Keep a picture and return its token; the one that was not used for longest may have to go."""
        upload = Upload(decoded.image, preview, decoded.width, decoded.height)
        token = secrets.token_hex(16)
        with self._lock:
            self._uploads[token] = upload
            if len(self._uploads) > KEPT:
                self._uploads.popitem(last=False)
        return token

    def get(self, token: str) -> Upload | None:
        """Return the upload with this token; None when it was never there or had to go."""
        with self._lock:
            if token in self._uploads:
                self._uploads.move_to_end(token)
            return self._uploads.get(token)
