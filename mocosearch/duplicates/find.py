"""Finding the identical and the nearly identical photos of a library, and which of them is worth keeping."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mocosearch.duplicates.contents import Contents
from mocosearch.duplicates.copies import TURNS
from mocosearch.duplicates.threshold import Calibration, load_calibration, save_calibration
from mocosearch.errors import LibraryChanged
from mocosearch.library import Library
from mocosearch.library.recognize import path_of
from mocosearch_index.duplicates import NEVER, Star, stars
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import Photo

TURNED_AT_MOST = {"cpu": 5_000, "cuda": 200_000}  # photos: more would take longer than some ten minutes

_READ_AT_ONCE = 1000  # photos between two words on how far it is

Step = Literal["Reading", "Placing", "Measuring", "Comparing"]
Progress = Callable[[Step, int, int], None]  # what is done, photos done, photos in all

Order = tuple[int, int, tuple[bool, str, int], int, bytes]

# Why a photo comes before the next one: the first part of `keeping_order` in which they differ.
_REASONS = ("most pixels", "largest file", "oldest", "shortest path", "first by name")


@dataclass(frozen=True, slots=True)
class Copy:
    """A photo that can go. `likeness` 1: the same bytes; else that by which it was found."""

    photo: Photo
    identical: bool  # to the keeper, byte for byte
    likeness: float
    turn: str | None  # how it lies when the keeper lies upright; None: not turned


@dataclass(frozen=True, slots=True)
class Group:
    """A photo worth keeping, why it and not the next best, and its copies, the identical ones first."""

    keeper: Photo
    why: str
    copies: list[Copy]

    @property
    def identical(self) -> bool:
        """Whether all have the same bytes."""
        return all(copy.identical for copy in self.copies)


@dataclass(frozen=True, slots=True)
class DuplicateReport:
    """What was found, how, and how sure it is. `turned_left_out`: nobody asked, and it would have taken long."""

    photos: int
    groups: list[Group]  # most bytes to gain first
    calibration: Calibration | None  # None: not measured, for a likeness was named or only bytes were compared
    turned: bool
    turned_left_out: bool
    unreadable: int  # photos that could not be turned

    @property
    def copies(self) -> int:
        """How many photos can go."""
        return sum(len(group.copies) for group in self.groups)

    @property
    def bytes_to_gain(self) -> int:
        """What the copies take on the disk."""
        return sum(copy.photo.size for group in self.groups for copy in group.copies)


def find_duplicates(
    library: Library,
    *,
    near: bool = True,
    threshold: float | None = None,
    turned: bool | None = None,
    progress: Progress = lambda step, done, total: None,
) -> DuplicateReport:
    """Group the photos of a library that are copies of each other. No file is ever touched.

    `near` False: only those with the same bytes, without reading a file or loading torch. `threshold`: the likeness to
    take instead of a measured one. `turned`: look for turned and mirrored copies too; None: unless that takes long.
    PhotoGone, NoEncoder, EncoderMismatch.
    """
    contents = _by_content(library.index, progress)
    photos = sum(map(len, contents))
    search = _Search(library, contents, progress)
    if near and len(contents) > 1:
        search.run(threshold, turned)
    taken = {place for star in search.stars for place in (star.center, *star.members.tolist())}
    groups = [_group(contents, star) for star in search.stars]
    groups += [_group(contents[place : place + 1], None) for place in range(len(contents)) if place not in taken]
    groups = [group for group in groups if group.copies]
    groups.sort(key=lambda group: (-sum(copy.photo.size for copy in group.copies), group.keeper.path))
    return DuplicateReport(photos, groups, search.calibration, search.turned, search.turned_left_out, search.unreadable)


def _by_content(index: ImageIndex, progress: Progress) -> list[list[Photo]]:
    """Return the indexed photos, those with the same bytes together, all in the order in which they would be kept."""
    contents: defaultdict[tuple[bytes | None, int], list[Photo]] = defaultdict(list)
    photos: list[Photo] = []
    total = index.counts()["indexed"]
    for photo in index.photos("indexed"):
        if len(photos) % _READ_AT_ONCE == 0:
            progress("Reading", len(photos), total)
        photos.append(photo)
    for photo in sorted(photos, key=keeping_order):
        contents[photo.content_hash, photo.size].append(photo)
    return list(contents.values())


class _Search:
    """The search for near-duplicates among different contents; one use."""

    def __init__(self, library: Library, contents: list[list[Photo]], progress: Progress) -> None:
        self.stars: list[Star] = []
        self.calibration: Calibration | None = None
        self.turned = False
        self.turned_left_out = False
        self.unreadable = 0
        self._library = library
        self._count = len(contents)
        self._progress = progress
        self._paths = [path_of(library.index, photos[0]) for photos in contents]
        self._ids = [photos[0].id for photos in contents]
        self._hashes = [photos[0].content_hash or b"" for photos in contents]

    def run(self, threshold: float | None, turned: bool | None) -> None:
        """Fill the fields."""
        contents = Contents.spread_out(self._paths, self._vectors(), self._told("Placing"))
        upright = as_turned = threshold
        if threshold is None:
            self.calibration = self._calibrated(contents)
            upright, as_turned = self.calibration.upright.likeness, self.calibration.turned.likeness
        self.turned = self._turned(turned)
        thresholds = NEVER if upright is None else upright, NEVER if as_turned is None else as_turned
        if self.turned and as_turned is not None:
            self._compare_turned(contents, *thresholds)
        elif upright is not None:
            self.stars = list(stars(contents.vectors, contents.scales, thresholds[0], progress=self._told("Comparing")))

    def _vectors(self) -> NDArray[np.float16]:
        """Return the stored vectors of the contents (n, dim), in their order."""
        ids, vectors = self._library.index.all_vectors()
        order = np.argsort(ids)
        places = order[np.searchsorted(ids, self._ids, sorter=order).clip(max=len(ids) - 1)]
        if not np.array_equal(ids[places], self._ids):
            raise LibraryChanged("The library changed while its photos were read: look for copies again.")
        kept: NDArray[np.float16] = vectors[places]
        return kept

    def _calibrated(self, contents: Contents) -> Calibration:
        known = load_calibration(self._library.index, self._hashes)
        if known is not None:
            return known
        from mocosearch.duplicates.calibration import calibrate

        calibration = calibrate(contents, self._library.encoder, lambda *done: self._progress("Measuring", *done))
        save_calibration(self._library.index, self._hashes, calibration)
        return calibration

    def _turned(self, wish: bool | None) -> bool:
        if wish is not None:
            return wish
        device = self._library.encoder.device.type
        self.turned_left_out = self._count > TURNED_AT_MOST.get(device, TURNED_AT_MOST["cpu"])
        return not self.turned_left_out

    def _compare_turned(self, contents: Contents, upright: float, as_turned: float) -> None:
        from mocosearch.duplicates.turned_photos import TurnedPhotos

        compared = self._told("Comparing")
        photos = TurnedPhotos(contents.paths, self._library.encoder, contents.spread, compared)
        with closing(photos):
            self.stars = list(stars(contents.vectors, contents.scales, upright, photos, as_turned, compared))
        self.unreadable = photos.unreadable

    def _told(self, step: Step) -> Callable[[int], None]:
        return lambda rows: self._progress(step, rows, self._count)


def _group(contents: list[list[Photo]], star: Star | None) -> Group:
    """Make a group of a star, or of the first of `contents` alone."""
    keeper, *identical = contents[0 if star is None else star.center]
    copies = [Copy(photo, True, 1.0, None) for photo in identical]
    if star is not None:
        found = zip(star.members.tolist(), star.scores.tolist(), star.views.tolist(), strict=True)
        for place, score, view in sorted(found, key=lambda entry: (-entry[1], entry[0])):
            turn = TURNS[view][1] if view else None
            copies += [Copy(photo, False, score, turn) for photo in contents[place]]
    why = why_kept(keeper, min((copy.photo for copy in copies), key=keeping_order)) if copies else ""
    return Group(keeper, why, copies)


def keeping_order(photo: Photo) -> Order:
    """Return what photos are sorted by, the one to keep first.

    Most pixels, then the largest file, the oldest (a date of the camera counts more than one of the file system, for
    copies often lose it), the shortest path, the first by name.
    """
    pixels = (photo.width or 0) * (photo.height or 0)
    date = (photo.taken_at is None, photo.taken_at or "", photo.mtime_ns)
    return -pixels, -photo.size, date, len(photo.path), photo.path


def why_kept(keeper: Photo, next_best: Photo) -> str:
    """Say what `keeper` has over the best of the others."""
    pairs = zip(_REASONS, keeping_order(keeper), keeping_order(next_best), strict=True)
    return next(reason for reason, one, other in pairs if one != other)
