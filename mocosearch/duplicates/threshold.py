"""From which likeness on photos are called copies: a rule over known copies and different photos, and its cache."""

import json
import math
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch_index.atomic import atomic_write, disk_errors_named
from mocosearch_index.errors import DiskFull, NotWritable, StorageFailed
from mocosearch_index.image_index import ImageIndex

PRECISION = 0.95  # aimed at
COPIES = 0.1  # assumed: one photo in ten has a copy
_FORMAT = 2
# In a folder of its own: a writer of the index clears its folder of half-written files.
_PLACE = Path("duplicates") / "calibration.json"
_SKETCH = 500  # hashes: they are random, so the smallest ones are a fair sample of the contents
_UNCHANGED = 0.9  # share of the contents of then and now that are in both, from which on it is not measured again
_TELLS = 0.5  # recall from which on an encoder can tell copies


@dataclass(frozen=True, slots=True)
class Threshold:
    """A likeness and how well it tells copies: `precision` of the pairs reported, `recall` of generated copies.

    `likeness` None: at none are enough of the pairs right.
    """

    likeness: float | None
    precision: float
    recall: float
    recall_by_kind: dict[str, float]

    @property
    def tells(self) -> bool:
        """Whether the encoder finds at least half of the copies."""
        return self.likeness is not None and self.recall >= _TELLS


@dataclass(frozen=True, slots=True)
class Calibration:
    """Thresholds for one encoder and state of a library: for photos as they lie, and for turned or mirrored ones."""

    upright: Threshold
    turned: Threshold
    copied: int  # photos of which copies were made
    compared: int  # photos compared with all others


@dataclass(frozen=True, slots=True)
class DifferentPhotos:
    """Likenesses of pairs that are no copies, the highest ones, seen from each of `photos` photos.

    `all_of_them`: the photos are the whole library, not a sample.
    """

    likenesses: list[float]
    photos: int
    all_of_them: bool

    def a_photo(self, likeness: float) -> float:
        """Return how many others come as near as this to a photo.

        In a sample, one is added to those seen: what did not happen there can still happen in the rest.
        """
        seen = sum(other >= likeness for other in self.likenesses)
        return (seen if self.all_of_them else seen + 1) / max(1, self.photos)


def false_pairs_that_matter(photos: int) -> int:
    """Return how many false pairs, the nearest first, decide: with more, no threshold is precise enough."""
    return math.floor(2 * photos * COPIES * (1 - PRECISION) / PRECISION) + 1


def choose(copies: dict[str, NDArray[np.float32]], different: DifferentPhotos) -> Threshold:
    """Return the lowest likeness of a generated copy at which PRECISION is reached, when one photo in ten has a copy.

    `copies`: by kind, the likenesses of copies to their originals. At a likeness t a library of n photos reports
    n * COPIES * recall(t) right pairs, and n * different.a_photo(t) / 2 wrong ones, for each is seen from both sides.
    """
    all_copies = np.sort(np.concatenate([*copies.values(), np.empty(0, np.float32)]))
    for place, likeness in enumerate(all_copies.tolist()):
        recall = (len(all_copies) - place) / len(all_copies)
        precision = _precision(recall, different.a_photo(likeness))
        if precision >= PRECISION:
            return Threshold(likeness, precision, recall, _shares(copies, likeness))
    return Threshold(None, 0.0, 0.0, dict.fromkeys(copies, 0.0))


def _precision(recall: float, wrong_a_photo: float) -> float:
    right = COPIES * recall
    return right / (right + wrong_a_photo / 2)


def _shares(copies: dict[str, NDArray[np.float32]], likeness: float) -> dict[str, float]:
    return {kind: float((found >= likeness).mean()) for kind, found in copies.items() if len(found)}


def load_calibration(index: ImageIndex, hashes: Iterable[bytes]) -> Calibration | None:
    """Return what was kept for this encoder and nearly these contents; None: there is nothing, or it is damaged."""
    try:
        stored = json.loads((index.folder / _PLACE).read_bytes())
        content = stored["content"]
        if stored["crc32"] != _checksum(content) or content["made_from"] != _made_from(index):
            return None
        if _shared(content["sketch"], _sketch(hashes)) < _UNCHANGED:
            return None
        upright, turned = Threshold(**content["upright"]), Threshold(**content["turned"])
        return Calibration(upright, turned, content["copied"], content["compared"])
    except (OSError, ValueError, LookupError, TypeError):  # it is only a cache
        return None


def save_calibration(index: ImageIndex, hashes: Iterable[bytes], calibration: Calibration) -> None:
    """Keep a calibration; where nothing can be written it is made again the next time."""
    content = {"made_from": _made_from(index), "sketch": _sketch(hashes), **asdict(calibration)}
    path = index.folder / _PLACE
    # FileNotFoundError: the index was deleted meanwhile, or its drive is off.
    with suppress(FileNotFoundError, DiskFull, NotWritable, StorageFailed), disk_errors_named(path.parent):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        atomic_write(path, json.dumps({"content": content, "crc32": _checksum(content)}, indent=2).encode())


def _made_from(index: ImageIndex) -> list[str | int]:
    return [_FORMAT, index.encoder.fingerprint]


def _sketch(hashes: Iterable[bytes]) -> list[str]:
    return [name.hex() for name in sorted(hashes)[:_SKETCH]]


def _shared(one: list[str], other: list[str]) -> float:
    """Estimate which share of the contents of either is in both (Broder's minwise sketches, 1997)."""
    either = sorted({*one, *other})[:_SKETCH]
    return len({*one}.intersection(other, either)) / len(either)


def _checksum(content: object) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
