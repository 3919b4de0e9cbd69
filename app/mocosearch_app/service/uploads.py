"""Pictures that were uploaded to search with: a few, in memory only, gone when the server stops."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from mocosearch_index.records import Float32

MOST = 64  # uploads that are kept, the latest,
MOST_BYTES = 256 << 20  # as long as their files take no more than this together


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays have no single truth value
class Upload:
    """A picture to search with; `width` and `height` of the upright original."""

    file: bytes  # for parts of it, and to show it
    vector: Float32  # (dim,)
    width: int
    height: int


class Uploads:
    """The latest uploads by a token that nobody can guess. Safe to use from many threads."""

    def __init__(self) -> None:
        self._uploads: OrderedDict[str, Upload] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, upload: Upload) -> str:
        """Keep a picture and return its token; those that were not used for longest may have to go."""
        token = secrets.token_hex(16)
        with self._lock:
            self._uploads[token] = upload
            self._bytes += len(upload.file)
            while len(self._uploads) > MOST or (self._bytes > MOST_BYTES and len(self._uploads) > 1):
                _, oldest = self._uploads.popitem(last=False)
                self._bytes -= len(oldest.file)
        return token

    def get(self, token: str) -> Upload | None:
        """Return the upload with this token; None when it was never there or had to go."""
        with self._lock:
            if token in self._uploads:
                self._uploads.move_to_end(token)
            return self._uploads.get(token)
