"""Pictures to search with go through the network in the order they came, in a few threads that share the cores."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from PIL import Image

from mocosearch.library import Library
from mocosearch_index.errors import MocosearchError
from mocosearch_index.records import Float32

_MOST_LANES = 4
_PATIENCE = 30.0


class Busy(MocosearchError):
    """So much is asked for that this has to be asked for again, a little later."""


class Embedder:
    """Embeds for all who ask at the same time. Safe to call from many threads.

    Who asks alone has all cores. Several share them, each with cores of its own: threads that take part in all of the
    work would wait for each other at every layer.
    """

    def __init__(self, library: Library, patience: float = _PATIENCE) -> None:
        """`patience`: seconds that a picture waits in line."""
        self._library = library
        self._patience = patience
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._lanes: ThreadPoolExecutor | None = None
        self._cores = self._share = 1
        self._asking = _Count()

    def start(self) -> ThreadPoolExecutor:
        """Load the encoder, if that is not done yet: it takes seconds. NoEncoder, EncoderMismatch, BadCheckpoint."""
        with self._lock:
            if self._lanes is None:
                # Before torch is loaded: else its threads wait by turning round, on cores that decoders need.
                os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
                encoder = self._library.encoder
                from mocosearch.embed import cores_of_torch, lanes

                self._cores = cores_of_torch()
                count = min(self._cores, _MOST_LANES)
                self._share = self._cores // count
                threads = self._open.enter_context(lanes(count, self._share))
                threads.submit(lambda: encoder.inference).result()  # its fast form, too
                self._lanes = threads
            return self._lanes

    def embed(self, picture: Image.Image) -> Float32:
        """Return the vector (dim,) of a picture (RGB, any size). Raises Busy, and what `start` does."""
        lanes = self.start()
        with self._asking.one_more():
            embedding = lanes.submit(self._embed, picture)
            try:
                return embedding.result(self._patience)
            except TimeoutError:
                embedding.cancel()
                raise Busy("Many pictures are being searched with: try again in a moment.") from None

    def close(self) -> None:
        """Embed what has begun, and end the threads."""
        self._open.close()

    def _embed(self, picture: Image.Image) -> Float32:
        import torch

        torch.set_num_threads(self._cores if self._asking.count == 1 else self._share)  # of this thread
        return self._library.encoder.embed_image(picture)


class _Count:
    """How many are within a block at the same time."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    @contextmanager
    def one_more(self) -> Iterator[None]:
        with self._lock:
            self.count += 1
        try:
            yield
        finally:
            with self._lock:
                self.count -= 1
