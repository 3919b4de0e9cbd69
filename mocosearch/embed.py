"""The pipeline from photos to vectors: processes decode ahead of the network, by a bounded number of photos.

The network runs in a few threads, each with a batch and cores of its own. Threads that shared one batch would wait for
each other at every layer, and for the decoders that run on the same cores.
"""

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from mocosearch.encoders import Encoder
from mocosearch.encoders.inference import worth_compiling
from mocosearch.images.decode import TIME_CAP, Undecodable
from mocosearch.images.decode_pool import DecodePool
from mocosearch.images.prepared import Prepared

Key = TypeVar("Key")

_BATCH_PIXELS = 8 * 224**2  # on a CPU; what a batch needs in a ResNet then stays in its caches
_LARGEST_BATCH = 64
_GPU_BATCH = 128
_MOST_LANES = 16  # with some 100 MB each
_MOST_DECODERS = 32
_PHOTOS_WORTH_A_DECODER = 8  # starting one takes as long as decoding so many photos of 12 megapixels


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays have no single truth value
class Embedding:
    """What is known of a photo after one reading of its file; `width` and `height` in pixels, upright."""

    vector: NDArray[np.float32]  # (dim,), unit length
    content_hash: bytes  # see images.prepared.content_hash
    width: int
    height: int
    taken_at: str | None  # "YYYY-MM-DDTHH:MM:SS"


@dataclass(frozen=True, slots=True)
class Shares:
    """How the cores are shared: by a fixed rule, nothing is measured."""

    decoders: int  # processes
    lanes: int  # threads, each with a batch in the network
    cores_a_lane: int
    batch: int  # photos

    @classmethod
    def of(cls, device: torch.device, crop: int, cores: int, expected: int | None) -> Self:
        """Share `cores` for `expected` photos of `crop` pixels a side (None: many).

        Decoders may take every core: they stop when they are far enough ahead, and then all cores are the network's.
        """
        decoders = min(cores, _MOST_DECODERS)
        if expected is not None:
            decoders = min(decoders, -(-expected // _PHOTOS_WORTH_A_DECODER))
        decoders = max(decoders, 1)
        if device.type != "cpu":
            return cls(decoders, lanes=2, cores_a_lane=1, batch=_GPU_BATCH)  # a lane copies while the other computes
        batch = min(max(1, _BATCH_PIXELS // crop**2), _LARGEST_BATCH)
        lanes = min(cores, _MOST_LANES)
        if expected is not None:
            lanes = max(1, min(lanes, -(-expected // batch)))
        return cls(decoders, lanes, cores // lanes, batch)


def embed_photos(
    photos: Iterable[tuple[Key, Path]],
    encoder: Encoder,
    *,
    expected: int | None = None,
    batch_size: int | None = None,
    time_cap: float = TIME_CAP,
) -> Generator[tuple[Key, Embedding | Undecodable]]:
    """Embed photos named by any keys: each key comes back once, in order, with its vector or the reason why not.

    `expected`: how many they are, if that is known, so that a few are done with little ado; `time_cap`: seconds that
    decoding one may take. Keys are drawn at most 2 * lanes + 3 batches before they come back. The results of a batch
    come together; close the iterator to stop early: it then waits for the batches in the network only.
    Raises BadCheckpoint, DecodersFailed, OutOfMemory.
    """
    crop = encoder.preprocessing.crop
    shares = Shares.of(encoder.device, crop, cores_of_torch(), expected)
    size = batch_size or shares.batch
    waiting: deque[tuple[list[Key], Future[list[Embedding | Undecodable]]]] = deque()
    with (
        DecodePool(shares.decoders, time_cap) as pool,
        lanes(shares.lanes, shares.cores_a_lane) as threads,
    ):
        inference = encoder.inference
        if expected is not None and worth_compiling(expected, crop, encoder.device, inference.dtype):
            threads.submit(inference.compile, size)  # the other lanes start meanwhile
        prepared = pool.prepare(photos, encoder.preprocessing.geometry, ahead=(shares.lanes + 1) * size)
        while batch := list(islice(prepared, size)):
            waiting.append(([key for key, _ in batch], threads.submit(_embed, [photo for _, photo in batch], encoder)))
            while waiting and (len(waiting) > shares.lanes + 1 or waiting[0][1].done()):
                keys, results = waiting.popleft()
                yield from zip(keys, results.result(), strict=True)
        for keys, results in waiting:
            yield from zip(keys, results.result(), strict=True)


@contextmanager
def lanes(count: int, cores: int) -> Iterator[ThreadPoolExecutor]:
    """Yield `count` threads whose computations use `cores` cores each."""
    with _torch_threads.lent():
        threads = ThreadPoolExecutor(count, "embed", initializer=torch.set_num_threads, initargs=(cores,))
        try:
            yield threads
        finally:
            threads.shutdown(cancel_futures=True)


def cores_of_torch() -> int:
    """How many cores torch may use; lanes share them."""
    return _torch_threads.count()


class _TorchThreads:
    """How many threads torch has: lanes change it for all threads that start later, until the last lanes end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = 0
        self._lent = 0  # to so many

    def count(self) -> int:
        """Return how many it has when no lanes run."""
        with self._lock:
            return self._own if self._lent else torch.get_num_threads()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let the block change it."""
        with self._lock:
            self._own = self._own if self._lent else torch.get_num_threads()
            self._lent += 1
        try:
            yield
        finally:
            with self._lock:
                self._lent -= 1
                torch.set_num_threads(self._own)


_torch_threads = _TorchThreads()


def _embed(photos: list[Prepared | Undecodable], encoder: Encoder) -> list[Embedding | Undecodable]:
    """Send what could be decoded through the network and put the vectors back in their places."""
    pixels = [photo.pixels for photo in photos if isinstance(photo, Prepared)]
    vectors = iter(encoder.embed(torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)) if pixels else ())
    return [
        photo
        if isinstance(photo, Undecodable)
        else Embedding(next(vectors).copy(), photo.content_hash, photo.width, photo.height, photo.taken_at)
        for photo in photos
    ]
