"""The records that cross the door of the index. Paths are bytes relative to the library root."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
PhotoState = Literal["indexed", "skipped", "missing"]


@dataclass(frozen=True, slots=True)
class FileStamp:
    """A file as the walk saw it: what tells, without reading it, whether it changed."""

    path: bytes
    size: int  # bytes
    mtime_ns: int


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays have no single truth value
class EmbeddedPhoto:
    """A photo that was decoded and embedded; `width` and `height` in pixels of the upright original."""

    stamp: FileStamp
    content_hash: bytes
    width: int
    height: int
    taken_at: str | None  # "YYYY-MM-DDTHH:MM:SS", local time of the camera
    vector: Float32  # (dim,), L2-normalized


@dataclass(frozen=True, slots=True)
class SkippedPhoto:
    """A file that could not be embedded. `decoder`: the decoders at hand; a new codec means a retry."""

    stamp: FileStamp
    reason: str  # short slug such as "truncated"
    detail: str
    decoder: str


@dataclass(frozen=True, slots=True)
class Photo:
    """One row of the catalog. `id` is never reused."""

    id: int
    path: bytes
    size: int
    mtime_ns: int
    content_hash: bytes | None
    width: int | None
    height: int | None
    taken_at: str | None
    state: PhotoState
    reason: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class KnownFile:
    """What a rescan has to know about a file it has seen before."""

    id: int
    stamp: FileStamp
    state: PhotoState
    reason: str | None
    decoder: str | None


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """What made the vectors: fingerprint of weights and preprocessing, vector length, words for a person."""

    fingerprint: str
    dim: int
    description: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something `verify` found, and what to do about it."""

    what: str
    remedy: str
