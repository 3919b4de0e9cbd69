"""A folder of photos sorted into class folders: the truth that the figures are counted against."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import NoPhotos, NotLabelled
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

    Raises NoPhotos when there are none, and NotLabelled when some lie directly in `root`, when all are of one
    class, or when no class has two.
    """
    paths = [stamp.path for stamp in find_photos(root)]
    if not paths:
        raise NoPhotos(f"No photos in {shown(root)}: name a folder with one folder of photos for each class.")
    folders = [path.rpartition(b"/")[0] for path in paths]
    if loose := folders.count(b""):
        raise NotLabelled(
            f"{loose} of {len(paths)} photos lie directly in {shown(root)}: sort them into a folder for each class."
        )
    names = sorted(set(folders))
    number = {name: index for index, name in enumerate(names)}
    labels = np.array([number[folder] for folder in folders], dtype=np.int64)
    check_classes(labels, root)
    absolute = [root / os.fsdecode(path) for path in paths]
    return LabelledPhotos(root, absolute, labels, list(map(printable, names)))


def check_classes(labels: NDArray[np.int64], root: Path, *, unreadable: int = 0) -> None:
    """Raise NotLabelled unless there are two classes, and one with two photos, beside those `unreadable`."""
    counts = np.unique(labels, return_counts=True)[1]
    more = f" ({unreadable:,} more cannot be read)" if unreadable else ""
    if len(counts) < 2:
        raise NotLabelled(
            f"All photos of {shown(root)} are of one class{more}: accuracy needs two or more folders of photos."
        )
    if counts.max() < 2:
        raise NotLabelled(
            f"No class folder of {shown(root)} has two photos{more}, so none can be found by another: add photos."
        )
