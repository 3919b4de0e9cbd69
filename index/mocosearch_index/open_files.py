"""What is open while an index is: catalog, vectors, search structure, and the lock of the one writer."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from mocosearch_index.atomic import disk_errors_named
from mocosearch_index.catalog.catalog import Catalog
from mocosearch_index.catalog.library_row import LibraryRow
from mocosearch_index.errors import DamagedIndex, IndexLocked
from mocosearch_index.paths import shown
from mocosearch_index.search.cache import SearchCache
from mocosearch_index.vectors import VectorFile

CATALOG = "catalog.sqlite"
_OF_A_GENERATION = ("vectors-*.f16", "search-*.faiss", "exact-*.faiss")  # exact: of older versions
FILES = (f"{CATALOG}*", *_OF_A_GENERATION, "lock")  # patterns of all that an index writes


def vector_path(folder: Path, generation: int) -> Path:
    """Return where the vectors of a generation are."""
    return folder / f"vectors-{generation:06}.f16"


def file_sizes(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield every file in `folder`, those of others too, by its path from there, and how many bytes it has."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with suppress(FileNotFoundError):  # SQLite and the page remove files of their own meanwhile
                yield path.relative_to(folder), path.lstat().st_size


class OpenFiles:
    """The open files of one index; swapped as one, so that no thread ever mixes those of two generations."""

    def __init__(self, catalog: Catalog, vectors: VectorFile, search: SearchCache) -> None:
        """Use `open`. Whoever made it is its first user."""
        self.catalog = catalog
        self.vectors = vectors
        self.search = search
        self._users = 1
        self._counting = threading.Lock()

    @classmethod
    def open(cls, folder: Path, *, writable: bool) -> "OpenFiles":
        """Open what belongs together; DamagedIndex when it does not."""
        tried = None
        while True:
            catalog = Catalog(folder / CATALOG, writable=writable)
            try:
                vectors = _open_vectors(folder, catalog.library(), writable)
                return cls(catalog, vectors, SearchCache(folder, catalog, vectors))
            except DamagedIndex:
                catalog.close()
                if catalog.generation == tried:
                    raise
                tried = catalog.generation  # perhaps it was compacted just now, and the file is that of another
            except BaseException:
                catalog.close()
                raise

    def take(self) -> None:
        """Count a user, for whom the files stay open."""
        with self._counting:
            self._users += 1

    def give_back(self) -> None:
        """Take back what `take` or the constructor counted; the last user closes the files."""
        with self._counting:
            self._users -= 1
            if self._users:
                return
        self.vectors.close()
        self.catalog.close()

    def remove_leftovers(self, folder: Path) -> None:
        """Remove files of other generations: their compaction is over, or was killed. Only for the one writer."""
        for pattern in _OF_A_GENERATION:
            for path in folder.glob(pattern):
                if path not in (self.vectors.path, self.search.path):
                    path.unlink(missing_ok=True)


def _open_vectors(folder: Path, library: LibraryRow, writable: bool) -> VectorFile:
    path = vector_path(folder, library.generation)
    vectors = VectorFile(path, library.encoder.dim, library.identity, writable=writable)
    try:
        vectors.check_length(library.row_count)
    except BaseException:
        vectors.close()
        raise
    return vectors


def acquire_writer_lock(folder: Path) -> FileLock:
    """Take the writer lock; the system drops it when the process dies, however that happens."""
    lock = FileLock(folder / "lock", thread_local=False)
    try:
        with disk_errors_named(folder):
            lock.acquire(timeout=0)
    except Timeout:
        raise IndexLocked(
            f"Another mocosearch is writing to the index in {shown(folder)}: wait until it has finished."
        ) from None
    return lock
