"""Pictures to search with go through the network in the order they came, in a few threads that share the cores."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from PIL import Image

from mocosearch.library import Library
from mocosearch_index.errors import MocosearchError
from mocosearch_index.records import Float32

_MOST_LANES = 4  # on more cores each has several: who asks alone shall not wait for a single one
_PATIENCE = 30.0


class Busy(MocosearchError):
    """So much is asked for that this has to be asked for again, a little later."""


class Embedder:
    """Embeds for all who ask at the same time. Safe to call from many threads.

    As many pictures at once as threads would each use all cores, and wait for each other at every layer.
    """

    def __init__(self, library: Library, patience: float = _PATIENCE) -> None:
        """`patience`: seconds that a picture waits in line."""
        self._library = library
        self._patience = patience
        self._starting = threading.Lock()
        self._open = ExitStack()
        self._lanes: ThreadPoolExecutor | None = None

    def start(self) -> ThreadPoolExecutor:
        """Load the encoder, if that is not done yet: it takes seconds. NoEncoder, EncoderMismatch, BadCheckpoint."""
        with self._starting:
            if self._lanes is None:
                encoder = self._library.encoder
                from mocosearch.embed import cores_of_torch, lanes  # loads torch

                cores = cores_of_torch()
                count = min(cores, _MOST_LANES)
                threads = self._open.enter_context(lanes(count, cores // count))
                threads.submit(lambda: encoder.inference).result()  # its fast form, too
                self._lanes = threads
            return self._lanes

    def embed(self, picture: Image.Image) -> Float32:
        """Return the vector (dim,) of a picture (RGB, any size). Raises Busy, and what `start` does."""
        embedding = self.start().submit(self._library.encoder.embed_image, picture)
        try:
            return embedding.result(self._patience)
        except TimeoutError:
            embedding.cancel()
            raise Busy("Many pictures are being searched with: try again in a moment.") from None

    def close(self) -> None:
        """Embed what has begun, and end the threads."""
        self._open.close()
