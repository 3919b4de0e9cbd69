"""Several encoders on the very same photos."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import NoPhotos
from mocosearch.evaluation.features import Features
from mocosearch.images.decode import Undecodable


@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """Vectors of those of a list of photos that every encoder could be given."""

    vectors: tuple[NDArray[np.float32], ...]  # for each encoder (n, its dim)
    kept: NDArray[np.int64]  # (n,), ascending: which photos of the list they are of
    skipped: list[tuple[Path, Undecodable]]  # the others, and why


def side_by_side(features: Sequence[Features]) -> SideBySide:
    """Keep of each encoder's vectors those of photos that all have: a photo may be too slow to read just once.

    All features are of one list of photos. Raises NoPhotos when nothing is left.
    """
    kept = reduce(np.intersect1d, [one.kept for one in features])
    if not len(kept):
        raise NoPhotos("No photo could be read for every encoder: run the command again when the disk is less busy.")
    vectors = tuple(one.vectors[np.isin(one.kept, kept)] for one in features)
    skipped = {path: error for one in features for path, error in one.skipped}
    return SideBySide(vectors, kept, sorted(skipped.items(), key=lambda pair: pair[0]))
