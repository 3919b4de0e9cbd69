"""Keeps the search structure of one index in step with its commits, and its file on disk honest."""

from pathlib import Path

import numpy as np

from mocosearch_index.atomic import disk_errors_named, sync_folder
from mocosearch_index.catalog.catalog import Catalog
from mocosearch_index.records import Float32, SearchReport
from mocosearch_index.search import file as search_file
from mocosearch_index.search.levels import Found, Selection
from mocosearch_index.search.making import fits, make, make_exact
from mocosearch_index.search.structure import SearchStructure
from mocosearch_index.shared_lock import SharedLock
from mocosearch_index.vectors import VectorFile


class SearchCache:
    """The structure is read from its file at the first search; where none fits, search is exact.

    What takes long, to learn cells and to tune, is done only by a writer that saves the file.
    """

    def __init__(self, folder: Path, catalog: Catalog, vectors: VectorFile) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._library = catalog.library()
        self.path = folder / f"search-{self._library.generation:06}.faiss"
        self._lock = SharedLock()
        self._structure: SearchStructure | None = None
        self._change = -1  # the commit that `_structure` shows

    def search(self, like: Float32, unlike: Float32, k: int, change: int, selection: Selection) -> Found:
        """Return scores and ids (q, up to k) among what is indexed since commit `change`, or a later one.

        An id of -1 stands for no photo. Queries are made of `like` (q, m, dim) and `unlike` (q, l, dim).
        """
        structure = self._current(change)
        with self._lock.shared():
            return structure.search(like, unlike, k, selection, self._vectors.read)

    def report(self, change: int) -> SearchReport:
        """Tell what searches at commit `change`, and how well; where nobody has searched yet, by the file alone."""
        if self._structure is None:
            told = search_file.report_in(self.path, self._library.identity, self._library.generation, change)
            if told is not None:
                return told
        return self._current(change).report()

    def catch_up(self, change: int) -> None:
        """Bring a structure that is in use to commit `change`, so that the next search need not.

        One that is no longer what the settings ask for is replaced as soon as a writer has saved a better one.
        """
        if self._structure is None:
            return
        settings = self._catalog.library().settings.search
        if not fits(self._structure, self._vectors.dim, settings) and self._saved(change):
            with self._lock.alone():
                self._structure = None
        self._current(change)

    def save(self, change: int) -> None:
        """Write the file, unless it is there, so that the next process need not make the structure; DiskFull."""
        if self._saved(change):
            return
        settings = self._catalog.library().settings.search
        # Where there is none yet the one to save is made at once.
        if self._structure is None or not fits(self._current(change), self._vectors.dim, settings):
            with self._lock.alone():
                self._structure = None  # frees its memory for the one that takes its place
                photos = self._catalog.changes(-1)
                self._structure = make(self._vectors, photos, settings)
                self._change = photos.library.change
        structure = self._current(change)
        with self._lock.shared():
            search_file.save(structure, self.path, self._library.identity, self._library.generation, self._change)

    def drop_file(self) -> None:
        """Remove the file: to be called before every commit.

        A file that says it shows commit 7 must never meet another commit 7, made after lost power took back
        the first one. What took long to learn is kept in memory, to be followed and saved again.
        """
        footer = self._saved(self._catalog.library().change)
        if self._structure is None and footer is not None and footer.learned:
            with self._lock.alone():
                self._structure = self._load()
        self.remove_file()

    def remove_file(self) -> None:
        """Remove the file, and keep nothing of it."""
        with disk_errors_named(self.path.parent):
            if self.path.exists():
                self.path.unlink()
                sync_folder(self.path.parent)

    def file_is_damaged(self) -> bool:
        """Tell whether there is a file that fails its checksums."""
        return search_file.damaged(self.path)

    def _saved(self, change: int) -> search_file.Footer | None:
        """Return what the file says about itself when it shows commit `change`."""
        footer = search_file.footer_of(self.path)
        key = self._library.identity, self._library.generation, change
        return footer if footer is not None and footer.is_of(*key) else None

    def _current(self, change: int) -> SearchStructure:
        structure = self._structure
        if structure is not None and self._change >= change:
            return structure
        with self._lock.alone():
            if self._structure is None:
                self._structure = self._load() or self._make()
            if self._change < change:
                self._follow(self._structure)
            return self._structure

    def _load(self) -> SearchStructure | None:
        library = self._catalog.library()
        key = library.identity, library.generation, library.change
        self._change = library.change
        return search_file.load(self.path, library.encoder.dim, *key)

    def _make(self) -> SearchStructure:
        photos = self._catalog.changes(-1)
        self._change = photos.library.change
        return make_exact(self._vectors, photos, photos.library.settings.search)

    def _follow(self, structure: SearchStructure) -> None:
        changes = self._catalog.changes(self._change)
        structure.remove(changes.ids)
        ids, rows = changes.ids[changes.rows >= 0], changes.rows[changes.rows >= 0]
        order = np.argsort(rows)
        ids, rows = ids[order], rows[order]
        for part, vectors in self._vectors.blocks(rows):
            structure.add(ids[part], rows[part], vectors)
        self._change = changes.library.change
