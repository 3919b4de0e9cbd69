"""The records that cross the door of the index. Paths are bytes relative to the library root."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Version = tuple[bytes, int]  # an index, and the number of its last commit
PhotoState = Literal["indexed", "skipped", "missing"]
SearchLevel = Literal["exact", "ivf", "compressed"]


class FileStamp(NamedTuple):  # as KnownFile: a rescan makes one for every file, and a tuple is quick to make
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


class KnownFile(NamedTuple):
    """What a rescan has to know about a file it has seen before. The first three make its stamp."""

    path: bytes
    size: int
    mtime_ns: int
    id: int
    is_missing: bool
    reason: str | None  # why it was skipped, if it was
    decoder: str | None

    @property
    def stamp(self) -> FileStamp:
        """The file as it was seen last."""
        return FileStamp(*self[:3])

    @property
    def state(self) -> PhotoState:
        """What became of it."""
        return "missing" if self.is_missing else "skipped" if self.reason is not None else "indexed"


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
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What `compact` dropped: missing photos, rows of the vector file, bytes of the disk."""

    forgotten: int
    rows_dropped: int
    bytes_freed: int


@dataclass(frozen=True, slots=True)
class PhotoFilter:
    """Which photos a search may find; what is None does not matter, so that the empty filter lets all pass.

    A photo whose date is not known passes no filter with a date.
    """

    folder: bytes | None = None  # relative to the root; the photos in it and below it
    taken_from: str | None = None  # "YYYY-MM-DDTHH:MM:SS", both ends included
    taken_until: str | None = None
    ids: frozenset[int] | None = None  # only these
    exclude: frozenset[int] = frozenset()
    min_score: float | None = None  # cosine


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How an index is searched; chosen by a person, kept in the catalog."""

    level: SearchLevel | None = None  # None: by the number of photos
    dim: int | None = None  # vectors are projected to so many numbers by PCA; None: searched as they are
    whiten: bool = True  # from 50 photos on, directions in which photos vary much count less (after a PCA)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """What a person chose for one library; kept in its catalog. Patterns in the syntax of gitignore."""

    search: SearchSettings = SearchSettings()
    include: tuple[str, ...] = ()  # names that the walk takes though it would leave them out
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The search structure in use, and how well it does on the index's own vectors."""

    level: SearchLevel
    count: int  # vectors in it
    dim: int  # numbers of a vector in it
    whitened: bool  # scores are cosines of whitened vectors: photos with nothing in common are around 0
    bytes_a_vector: float  # of memory
    recall_at_10: float | None  # against exact search; None: it is exact itself
    cells: int | None  # nlist and nprobe of FAISS's inverted file; None: exact
    cells_visited: int | None
