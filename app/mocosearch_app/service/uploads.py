"""Pictures that were uploaded to search with: a few, in memory only, gone when the server stops."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from mocosearch_index.records import Float32

KEPT = 64  # the latest; each takes some ten kilobytes, whatever the size of the picture


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays have no single truth value
class Upload:
    """A picture to search with, as the encoder sees it; `width` and `height` of the original."""

    vector: Float32  # (dim,)
    preview: bytes  # WebP
    width: int
    height: int


class Uploads:
    """The latest uploads by a token that nobody can guess. Safe to use from many threads."""

    def __init__(self) -> None:
        self._uploads: OrderedDict[str, Upload] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, upload: Upload) -> str:
        """Keep a picture and return its token; the one that was not used for longest may have to go."""
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
