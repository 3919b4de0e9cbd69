"""Photos and their classes, from the folders they lie in: the truth that the figures are counted against."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import NoPhotos, NotLabelled
from mocosearch.evaluation.split import held_out_of, part_named
from mocosearch.images.walk import find_photos
from mocosearch_index.paths import printable, shown


@dataclass(frozen=True, slots=True, eq=False)
class LabelledPhotos:
    """n photos and their classes."""

    root: Path
    paths: list[Path]
    labels: NDArray[np.int64]  # (n,), an index into `classes`
    classes: list[str]  # printable: the relative path of the folder that holds the photos, or what a CSV file says
    held_out: NDArray[np.bool_] | None = None  # (n,), the test part, where folders or a CSV file tell of one
    stray: int = 0  # photos that were left out, for nothing says their class

    def selected(self, places: NDArray[np.int64]) -> "LabelledPhotos":
        """Return the photos at `places`, in that order; the classes stay."""
        held_out = None if self.held_out is None else self.held_out[places]
        paths = [self.paths[place] for place in places]
        return replace(self, paths=paths, labels=self.labels[places], held_out=held_out)

    def thinned(self, most: int) -> "LabelledPhotos":
        """Return at most `most` of the photos, evenly spaced, so that every class keeps its share."""
        count = len(self.paths)
        if count <= most:
            return self
        return self.selected(np.linspace(0, count - 1, most).round().astype(np.int64))


def find_labelled(root: Path) -> LabelledPhotos:
    """Find the photos below `root`; the class of each is the folder it lies in, `a/b` being another than `a`.

    Where `root` holds two or three of the folders train, val (valid, validation) and test, each with class folders,
    a class is the path below these: `train/a` and `test/a` are one class. Scored is test if there, else val.
    Photos that lie in no class folder are counted and left out. Raises NoPhotos when there are none at all, and
    NotLabelled when none has a class or the classes are too few: see `check_classes`.
    """
    paths = [stamp.path for stamp in find_photos(root)]
    if not paths:
        raise NoPhotos(f"No photos in {shown(root)}: name a folder with one folder of photos for each class.")
    folders = [path.rpartition(b"/")[0] for path in paths]
    parts = [_part_and_class(folder) for folder in folders]
    held_out = held_out_of([part for part, _ in parts if part is not None])
    if held_out is not None:
        folders = [name for _, name in parts]
    labelled = [(path, folder) for path, folder in zip(paths, folders, strict=True) if folder]
    if not labelled:
        raise NotLabelled(
            f"The {len(paths):,} photos of {shown(root)} lie in no class folders: sort them into a folder for each "
            "class, or name their classes in a CSV file (`eval --labels`)."
        )
    return with_classes(root, labelled, held_out, stray=len(paths) - len(labelled))


def with_classes(
    root: Path, photos: Sequence[tuple[bytes, bytes]], held_out: NDArray[np.bool_] | None, *, stray: int = 0
) -> LabelledPhotos:
    """Number the classes of `photos`, (path below `root`, class), in byte order; NotLabelled as `check_classes`."""
    names = sorted({name for _, name in photos})
    number = {name: index for index, name in enumerate(names)}
    labels = np.array([number[name] for _, name in photos], dtype=np.int64)
    check_classes(labels, root, held_out=held_out)
    paths = [root / os.fsdecode(path) for path, _ in photos]
    return LabelledPhotos(root, paths, labels, list(map(printable, names)), held_out, stray)


def check_classes(
    labels: NDArray[np.int64], root: Path, *, held_out: NDArray[np.bool_] | None = None, unreadable: int = 0
) -> None:
    """Raise NotLabelled unless there are two classes, and a photo that another one of its class can be found by.

    That is one of the test part and one of the training part where there are parts. `unreadable`: photos that are
    not among `labels`, for the message.
    """
    counts = np.unique(labels, return_counts=True)[1]
    more = f" ({unreadable:,} more cannot be read)" if unreadable else ""
    if len(counts) < 2:
        raise NotLabelled(
            f"All photos of {shown(root)} are of one class{more}: accuracy needs two or more, add photos of another."
        )
    if held_out is None:
        if counts.max() < 2:
            raise NotLabelled(
                f"No class of {shown(root)} has two photos{more}, so none can be found by another: add photos."
            )
    elif not len(np.intersect1d(labels[held_out], labels[~held_out])):
        raise NotLabelled(
            f"No class of {shown(root)} is in both the training and the test part{more}: give each class one "
            "name in both."
        )


def _part_and_class(folder: bytes) -> tuple[int | None, bytes]:
    """Split `train/a/b` into its part and `a/b`; a photo that is not so deep, or elsewhere, is of no part and class."""
    top, _, name = folder.partition(b"/")
    part = part_named(os.fsdecode(top)) if name else None
    return (part, name) if part is not None else (None, b"")
