"""Compaction: missing photos are forgotten, dead rows dropped, by a new generation of files and one flip to it."""

from contextlib import suppress
from pathlib import Path

from mocosearch_index.atomic import disk_errors_named
from mocosearch_index.catalog.catalog import Catalog
from mocosearch_index.open_files import vector_path
from mocosearch_index.vectors import Int64, VectorFile


def start_generation(folder: Path, catalog: Catalog, vectors: VectorFile) -> tuple[int, int]:
    """Write the vectors of the photos that are there as the next generation and let the catalog name it, durably.

    Return how many photos were forgotten and rows dropped: when both are 0, nothing was done. The old files stay.
    """
    library = catalog.library()
    rows = catalog.rows_to_keep()
    dropped = library.row_count - len(rows)
    if not dropped and not catalog.counts()["missing"]:
        return 0, 0
    path = vector_path(folder, library.generation + 1)
    try:
        with disk_errors_named(folder):
            _copy(vectors, rows, path, library.identity)
        with catalog.commit() as commit:
            return commit.compact(rows), dropped
    except BaseException:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def _copy(vectors: VectorFile, rows: Int64, path: Path, identity: bytes) -> None:
    """Write `rows` of `vectors` to a new file as its rows 0, 1, ...; on the disk when it returns."""
    VectorFile.create(path, vectors.dim, identity)
    with VectorFile(path, vectors.dim, identity, writable=True) as copy:
        for part, block in vectors.blocks(rows):
            copy.append(block, after=part.start)
