"""From which cosine on two photos are called copies: a rule over the scores of known copies and of different photos."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PRECISION = 0.95  # aimed at
COPIES = 0.1  # assumed: one photo in ten has a copy
_TELLS = 0.5  # recall from which on an encoder can tell copies


@dataclass(frozen=True, slots=True)
class Threshold:
    """A cosine and how well it tells copies: `precision` of the pairs reported, `recall` of generated copies.

    `cosine` None: at none are enough of the pairs right.
    """

    cosine: float | None
    precision: float
    recall: float
    recall_by_kind: dict[str, float]

    @property
    def tells(self) -> bool:
        """Whether the encoder finds at least half of the copies."""
        return self.cosine is not None and self.recall >= _TELLS


@dataclass(frozen=True, slots=True)
class Calibration:
    """Thresholds for one encoder and state of a library: for photos as they lie, and for turned or mirrored ones."""

    upright: Threshold
    turned: Threshold
    copied: int  # photos of which copies were made
    compared: int  # photos compared with all others


@dataclass(frozen=True, slots=True)
class DifferentPhotos:
    """Cosines of pairs that are no copies, the highest ones, seen from each of `photos` photos.

    `all_of_them`: the photos are the whole library, not a sample.
    """

    cosines: list[float]
    photos: int
    all_of_them: bool

    def a_photo(self, cosine: float) -> float:
        """Return how many others come as near as this to a photo.

        In a sample, one is added to those seen: what did not happen there can still happen in the rest.
        """
        seen = sum(other >= cosine for other in self.cosines)
        return (seen if self.all_of_them else seen + 1) / max(1, self.photos)


def false_pairs_that_matter(photos: int) -> int:
    """Return how many false pairs, the nearest first, decide: with more, no threshold is precise enough."""
    return math.floor(2 * photos * COPIES * (1 - PRECISION) / PRECISION) + 1


def choose(copies: dict[str, NDArray[np.float32]], different: DifferentPhotos) -> Threshold:
    """Return the lowest cosine of a generated copy at which PRECISION is reached, when one photo in ten has a copy.

    `copies`: by kind, the cosines of copies with their originals. At a cosine t a library of n photos reports
    n * COPIES * recall(t) right pairs, and n * different.a_photo(t) / 2 wrong ones, for each is seen from both sides.
    """
    all_copies = np.sort(np.concatenate([*copies.values(), np.empty(0, np.float32)]))
    for place, cosine in enumerate(all_copies.tolist()):
        recall = (len(all_copies) - place) / len(all_copies)
        precision = _precision(recall, different.a_photo(cosine))
        if precision >= PRECISION:
            return Threshold(cosine, precision, recall, _shares(copies, cosine))
    return Threshold(None, 0.0, 0.0, dict.fromkeys(copies, 0.0))


def _precision(recall: float, wrong_a_photo: float) -> float:
    right = COPIES * recall
    return right / (right + wrong_a_photo / 2)


def _shares(copies: dict[str, NDArray[np.float32]], cosine: float) -> dict[str, float]:
    return {kind: float((cosines >= cosine).mean()) for kind, cosines in copies.items() if len(cosines)}
