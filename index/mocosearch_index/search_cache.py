"""Keeps the search structure of one index in step with its commits, and its file on disk honest."""

from pathlib import Path

import numpy as np

from mocosearch_index import ann
from mocosearch_index.ann import ExactSearch, Float32, Int64
from mocosearch_index.atomic import disk_errors_named, sync_folder
from mocosearch_index.catalog import Catalog
from mocosearch_index.shared_lock import SharedLock
from mocosearch_index.vectors import VectorFile


class SearchCache:
    """The structure is made at the first search: read from its file, or from the vectors when none fits."""

    def __init__(self, folder: Path, catalog: Catalog, vectors: VectorFile) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._library = catalog.library()
        self.path = folder / f"exact-{self._library.generation:06}.faiss"
        self._lock = SharedLock()
        self._search: ExactSearch | None = None
        self._change = -1  # the commit that `_search` shows

    def search(self, queries: Float32, k: int, change: int, only: Int64 | None = None) -> tuple[Float32, Int64]:
        """Return scores and ids (q, up to k) among what is indexed since commit `change`, or a later one.

        `only`: ids of the photos that may be found. An id of -1 stands for no photo.
        """
        search = self._current(change)
        with self._lock.shared():
            return search.search(queries, k, only)

    def catch_up(self, change: int) -> None:
        """Bring a structure that is in use to commit `change`, so that the next search need not."""
        if self._search is not None:
            self._current(change)

    def save(self, change: int) -> None:
        """Write the file, unless it is there, so that the next process need not make the structure; DiskFull."""
        if ann.is_of(self.path, self._library.identity, self._library.generation, change):
            return
        search = self._current(change)
        with self._lock.shared():
            search.save(self.path, self._library.identity, self._library.generation, self._change)

    def drop_file(self) -> None:
        """Remove the file: to be called before every commit.

        A file that says it shows commit 7 must never meet another commit 7, made after lost power took back
        the first one.
        """
        with disk_errors_named(self.path.parent):
            if self.path.exists():
                self.path.unlink()
                sync_folder(self.path.parent)

    def file_is_damaged(self) -> bool:
        """Tell whether there is a file that fails its checksums."""
        return self.path.exists() and ann.damaged(self.path)

    def _current(self, change: int) -> ExactSearch:
        if self._search is not None and self._change >= change:
            return self._search
        with self._lock.alone():
            if self._search is None:
                self._search = self._load() or self._make()
            if self._change < change:
                self._follow(self._search)
            return self._search

    def _load(self) -> ExactSearch | None:
        library = self._catalog.library()
        key = library.identity, library.generation, library.change
        self._change = library.change
        return ExactSearch.load(self.path, library.encoder.dim, *key)

    def _make(self) -> ExactSearch:
        changes = self._catalog.changes(-1)
        search = ExactSearch(self._vectors.dim)
        self._add(search, changes.ids, changes.rows)
        self._change = changes.library.change
        return search

    def _follow(self, search: ExactSearch) -> None:
        changes = self._catalog.changes(self._change)
        search.remove(changes.ids)
        ids, rows = changes.ids[changes.rows >= 0], changes.rows[changes.rows >= 0]
        order = np.argsort(rows)
        self._add(search, ids[order], rows[order])
        self._change = changes.library.change

    def _add(self, search: ExactSearch, ids: Int64, rows: Int64) -> None:
        for part, vectors in self._vectors.blocks(rows):
            search.add(ids[part], vectors)
