"""The vectors of a folder of photos: embedded once, scored in many ways."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch.embed import embed_photos
from mocosearch.encoders import Encoder
from mocosearch.errors import NoPhotos
from mocosearch.evaluation.labels.labelled import LabelledPhotos, check_classes
from mocosearch.images.decode import Undecodable


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Vectors of those of a list of photos that could be read."""

    vectors: NDArray[np.float32]  # (n, dim)
    kept: NDArray[np.int64]  # (n,), ascending: which photos of the list they are of
    skipped: list[tuple[Path, Undecodable]]  # the others, and why


@dataclass(frozen=True, slots=True, eq=False)
class LabelledFeatures:
    """Vectors of labelled photos, without those that could not be read."""

    vectors: NDArray[np.float32]  # (n, dim)
    labels: NDArray[np.int64]  # (n,), an index into `classes`
    classes: list[str]
    kept: NDArray[np.int64]  # (n,), ascending: which photos of the list they are of
    held_out: NDArray[np.bool_] | None  # (n,), the test part, where there is one
    skipped: list[tuple[Path, Undecodable]]

    @property
    def class_count(self) -> int:
        """How many classes still have a photo."""
        return len(np.unique(self.labels))


def embed_folder(paths: list[Path], encoder: Encoder, progress: Callable[[int, int], None] | None = None) -> Features:
    """Embed `paths`; `progress` is told how many of how many are done. NoPhotos when none can be read."""
    vectors: list[NDArray[np.float32]] = []
    kept: list[int] = []
    skipped: list[tuple[Path, Undecodable]] = []
    for number, result in embed_photos(enumerate(paths), encoder, expected=len(paths)):
        if isinstance(result, Undecodable):
            skipped.append((paths[number], result))
        else:
            vectors.append(result.vector)
            kept.append(number)
        if progress:
            progress(len(kept) + len(skipped), len(paths))
    if not vectors:
        raise NoPhotos(f"None of the {len(paths)} photos can be read: `mocosearch doctor` names missing codecs.")
    return Features(np.stack(vectors), np.array(kept, dtype=np.int64), skipped)


def embed_labelled(
    photos: LabelledPhotos, encoder: Encoder, progress: Callable[[int, int], None] | None = None
) -> LabelledFeatures:
    """Embed labelled photos. What cannot be read is skipped, with its label.

    Raises NotLabelled when what is left is of too few classes: see `check_classes`.
    """
    features = embed_folder(photos.paths, encoder, progress)
    read = photos.selected(features.kept)
    check_classes(read.labels, photos.root, held_out=read.held_out, unreadable=len(features.skipped))
    return LabelledFeatures(
        features.vectors, read.labels, photos.classes, features.kept, read.held_out, features.skipped
    )
