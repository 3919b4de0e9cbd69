"""The photos of the library as they stand: which there are, in which folders, in a shuffled order."""

import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mocosearch.library import Library
from mocosearch.library.queries import first_and_last_second
from mocosearch.randomness import permutation
from mocosearch_app.service.looks import Filters
from mocosearch_app.service.tiles import NothingToShow
from mocosearch_index.paths import printable
from mocosearch_index.records import PhotoFilter, Version

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays have no single truth value
class Contents:
    """The library after one change of its index."""

    version: Version
    ids: Ids  # (n,) of the indexed photos
    _folders: dict[str, tuple[bytes, int]] = field(default_factory=dict)  # by printable name; filled when asked for
    _filling: threading.Lock = field(default_factory=threading.Lock)


class Shelf:
    """What is in the library now. Safe to use from many threads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._contents: Contents | None = None
        self._looking = threading.Lock()

    def contents(self) -> Contents:
        """Return what there is, after a look whether another process has changed the index."""
        with self._looking:
            index = self._library.index
            index.refresh()
            if self._contents is None or self._contents.version != index.version:
                self._contents = Contents(index.version, index.ids())
            return self._contents

    def folders(self) -> dict[str, int]:
        """Return how many photos are in each folder and below it, by its printable name."""
        return {name: count for name, (_, count) in sorted(self._by_name().items())}

    def filter(self, filters: Filters) -> PhotoFilter:
        """Return what the index is asked for; NothingToShow for a folder that is not in the library."""
        folder = None
        if filters.folder:
            known = self._by_name().get(filters.folder)
            if known is None:
                raise NothingToShow(f"There is no folder “{filters.folder}” in this library.")
            folder = known[0]
        since = None if filters.since is None else first_and_last_second(filters.since)[0]
        until = None if filters.until is None else first_and_last_second(filters.until)[1]
        return PhotoFilter(folder=folder, taken_from=since, taken_until=until, min_score=filters.min_score)

    def matching(self, where: PhotoFilter) -> Ids:
        """Return the ids of the photos that pass a filter but for its score."""
        ids = self._library.index.select(where)
        return self.contents().ids if ids is None else ids

    def shuffled(self, where: PhotoFilter, seed: int) -> Ids:
        """Return the ids of the photos that pass a filter, in the order of `seed`."""
        ids = self.matching(where)
        return ids[permutation(seed, size=len(ids))]

    def _by_name(self) -> dict[str, tuple[bytes, int]]:
        contents = self.contents()
        with contents._filling:
            if not contents._folders:
                contents._folders.update(_folders(self._library))
            return contents._folders


def _folders(library: Library) -> dict[str, tuple[bytes, int]]:
    direct = Counter(
        path.rpartition(b"/")[0] for path, file in library.index.known().items() if file.state == "indexed"
    )
    below: Counter[bytes] = Counter()
    for folder, count in direct.items():
        while folder:
            below[folder] += count
            folder = folder.rpartition(b"/")[0]
    return {printable(folder): (folder, count) for folder, count in below.items()}
