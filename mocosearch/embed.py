"""The pipeline from photos to vectors: decoding threads run ahead of the network, by a bounded number of photos."""

import os
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from mocosearch.encoders import Encoder
from mocosearch.images.decode import Undecodable, decode, read_file

Key = TypeVar("Key")
HASH_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays have no single truth value
class Embedding:
    """What is known of a photo after one reading of its file; `width` and `height` in pixels, upright."""

    vector: NDArray[np.float32]  # (dim,), unit length
    content_hash: bytes  # blake2b of the file's bytes, HASH_BYTES long
    width: int
    height: int
    taken_at: str | None  # "YYYY-MM-DDTHH:MM:SS"


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    pixels: torch.Tensor  # uint8 (3, crop, crop)
    content_hash: bytes
    width: int
    height: int
    taken_at: str | None


def embed_photos(
    photos: Iterable[tuple[Key, Path]], encoder: Encoder, *, batch_size: int = 32
) -> Generator[tuple[Key, Embedding | Undecodable]]:
    """Embed photos named by any keys: each key comes back once, in order, with its vector or the reason why not.

    Keys are drawn at most three batches ahead. The results of a batch come together; close the iterator to stop
    early: it then waits for the photos being decoded, and for nothing else.
    """
    photos = iter(photos)
    pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="decode")
    waiting: deque[tuple[Key, Future[_Prepared | Undecodable]]] = deque()
    try:
        while True:
            ahead = islice(photos, 3 * batch_size - len(waiting))
            waiting.extend((key, pool.submit(_prepare, path, encoder)) for key, path in ahead)
            if not waiting:
                return
            batch = [waiting.popleft() for _ in range(min(batch_size, len(waiting)))]
            prepared = [future.result() for _, future in batch]
            results = _embed(prepared, encoder)
            yield from zip((key for key, _ in batch), results, strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare(path: Path, encoder: Encoder) -> _Prepared | Undecodable:
    """Read the file once, for its hash and its pixels: they are of the same content even if it changes meanwhile."""
    try:
        data = read_file(path)
        decoded = decode(data, short_side=encoder.preprocessing.resize)
    except Undecodable as error:
        return error.with_traceback(None)  # whose frames hold the file's bytes
    content_hash = blake2b(data, digest_size=HASH_BYTES).digest()
    return _Prepared(encoder.prepare(decoded.image), content_hash, decoded.width, decoded.height, decoded.taken_at)


def _embed(prepared: list[_Prepared | Undecodable], encoder: Encoder) -> list[Embedding | Undecodable]:
    """Send what could be decoded through the network and put the vectors back in their places."""
    pixels = [photo.pixels for photo in prepared if isinstance(photo, _Prepared)]
    vectors = iter(encoder.embed(torch.stack(pixels)) if pixels else ())
    return [
        photo
        if isinstance(photo, Undecodable)
        else Embedding(next(vectors).copy(), photo.content_hash, photo.width, photo.height, photo.taken_at)
        for photo in prepared
    ]
