"""What is open while an index is: catalog, vectors, search structure, and the lock of the one writer."""

from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from mocosearch_index.atomic import disk_errors_named
from mocosearch_index.catalog import Catalog
from mocosearch_index.errors import IndexLocked
from mocosearch_index.paths import shown
from mocosearch_index.search_cache import SearchCache
from mocosearch_index.vectors import VectorFile

CATALOG = "catalog.sqlite"
FILES = (f"{CATALOG}*", "vectors-*.f16", "exact-*.faiss", "lock")  # patterns of all that an index writes


def vector_path(folder: Path, generation: int) -> Path:
    """Return where the vectors of a generation are."""
    return folder / f"vectors-{generation:06}.f16"


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """The open files of one index; swapped as one, so that no thread ever mixes those of two."""

    catalog: Catalog
    vectors: VectorFile
    search: SearchCache

    @classmethod
    def open(cls, folder: Path, *, writable: bool) -> "OpenFiles":
        """Open what belongs together; DamagedIndex when it does not."""
        catalog = Catalog(folder / CATALOG, writable=writable)
        try:
            library = catalog.library()
            path = vector_path(folder, library.generation)
            vectors = VectorFile(path, library.encoder.dim, library.identity, writable=writable)
            try:
                vectors.check_length(library.row_count)
            except BaseException:
                vectors.close()
                raise
        except BaseException:
            catalog.close()
            raise
        return cls(catalog, vectors, SearchCache(folder, catalog, vectors))

    def close(self) -> None:
        """Close all."""
        self.vectors.close()
        self.catalog.close()


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
