"""The photos that `mocosearch eval` scores on: by class, by pairs, or any."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from mocosearch.cli.lasting_stderr import say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mocosearch.evaluation.labels.labelled import LabelledPhotos
    from mocosearch.evaluation.labels.listed import PairedPhotos
    from mocosearch.evaluation.side_by_side import SideBySide


class Photos(Protocol):
    """A list of photos, and what is known of them."""

    @property
    def paths(self) -> list[Path]:
        """Return the files."""

    def selected(self, places: "NDArray[np.int64]") -> Self:
        """Return the photos at `places`, ascending, with what is known of them."""


@dataclass(frozen=True)
class AnyPhotos:
    """Photos of which nothing is known."""

    paths: list[Path]

    def selected(self, places: "NDArray[np.int64]") -> "AnyPhotos":
        """Return the photos at `places`."""
        return AnyPhotos([self.paths[place] for place in places])


SomePhotos = TypeVar("SomePhotos", bound=Photos)


def find(folder: Path) -> AnyPhotos:
    """Find all photos below `folder`; NoPhotos."""
    from mocosearch.errors import NoPhotos
    from mocosearch.images.walk import find_photos
    from mocosearch_index.paths import shown

    paths = [folder / os.fsdecode(stamp.path) for stamp in find_photos(folder)]
    if not paths:
        raise NoPhotos(f"No photos in {shown(folder)}: name a folder that holds some.")
    return AnyPhotos(paths)


def labelled(folder: Path, csv_file: Path | None) -> "LabelledPhotos":
    """Find photos and their classes, in folders or in a CSV file; say on stderr what has none."""
    from mocosearch.evaluation.labels.labelled import find_labelled
    from mocosearch.evaluation.labels.listed import read_labels

    photos = find_labelled(folder) if csv_file is None else read_labels(folder, csv_file)
    if photos.stray:
        parts = "" if photos.held_out is None else " of train, val or test"
        say(f"Stray    {photos.stray:,} lie in no class folder{parts} and are left out")
    return photos


def of_pairs(folder: Path, csv_file: Path) -> "PairedPhotos":
    """Find photos and read which belong together."""
    from mocosearch.evaluation.labels.listed import read_pairs

    return read_pairs(folder, csv_file)


def selected(photos: SomePhotos, common: "SideBySide") -> SomePhotos:
    """Return those that all encoders were given, and say on stderr how many; NotLabelled as `find_labelled`."""
    from mocosearch.evaluation.labels.labelled import LabelledPhotos, check_classes

    left = photos.selected(common.kept)
    if isinstance(left, LabelledPhotos):
        check_classes(left.labels, left.root, held_out=left.held_out, unreadable=len(common.skipped))
    say_how_many(left)
    return left


def say_how_many(photos: Photos) -> None:
    """Say on stderr how many photos there are, of how many classes, and the size of the test part."""
    import numpy as np

    from mocosearch.evaluation.labels.labelled import LabelledPhotos

    of = ""
    if isinstance(photos, LabelledPhotos):
        of = f" of {len(np.unique(photos.labels)):,} classes"
        if photos.held_out is not None:
            of += f", {np.count_nonzero(photos.held_out):,} in the test part"
    say(f"Photos   {len(photos.paths):,}{of}")
