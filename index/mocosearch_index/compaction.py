"""Compaction: missing photos are forgotten, dead rows dropped, by a new generation of files and one flip to it."""

from contextlib import suppress
from pathlib import Path

from mocosearch_index.atomic import disk_errors_named
from mocosearch_index.catalog.catalog import Catalog
from mocosearch_index.errors import MocosearchError
from mocosearch_index.open_files import OpenFiles, vector_path
from mocosearch_index.vectors import Int64, VectorFile


def start_generation(folder: Path, files: OpenFiles) -> tuple[int, int]:
    """Write the vectors of the photos that are there as the next generation and let the catalog name it, durably.

    Return how many photos were forgotten and rows dropped: when both are 0, nothing was done. The old files stay.
    """
    catalog = files.catalog
    library = catalog.library()
    rows = catalog.rows_to_keep()
    dropped = library.row_count - len(rows)
    if not dropped and not catalog.counts()["missing"]:
        return 0, 0
    path = vector_path(folder, library.generation + 1)
    try:
        with disk_errors_named(folder):
            _copy(files.vectors, rows, path, library.identity)
        files.search.remove_file()
        with catalog.commit() as commit:
            return commit.compact(rows), dropped
    except BaseException:
        _remove_unless_in_use(path, catalog, library.generation)
        raise


def _remove_unless_in_use(path: Path, catalog: Catalog, before: int) -> None:
    """Remove the new file `path` while the catalog still names generation `before`; in doubt the next writer will.

    Ctrl-C during the commit is raised only behind it, and then there are no other vectors any more.
    """
    with suppress(MocosearchError, OSError):
        if catalog.library().generation == before:
            path.unlink(missing_ok=True)


def _copy(vectors: VectorFile, rows: Int64, path: Path, identity: bytes) -> None:
    """Write `rows` of `vectors` to a new file as its rows 0, 1, ...; on the disk when it returns."""
    VectorFile.create(path, vectors.dim, identity)
    with VectorFile(path, vectors.dim, identity, writable=True) as copy:
        for part, block in vectors.blocks(rows):
            copy.append(block, after=part.start)
