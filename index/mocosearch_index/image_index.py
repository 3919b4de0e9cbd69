"""ImageIndex: photos and their vectors in one folder. The one door that other rooms use.

catalog.sqlite        what is known of every photo               }  the truth
vectors-000001.f16    the vectors, append-only                   }
search-000001.faiss   the search structure: a cache, rebuilt at will
lock                  held by the one writer
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from filelock import FileLock

from mocosearch_index.atomic import disk_errors_named, remove_partials
from mocosearch_index.catalog.catalog import Catalog
from mocosearch_index.catalog.file import not_an_index
from mocosearch_index.catalog.library_row import root_from_stored, root_to_store
from mocosearch_index.compaction import start_generation
from mocosearch_index.current_files import CurrentFiles
from mocosearch_index.errors import DiskFull, IndexExists
from mocosearch_index.open_files import CATALOG, FILES, OpenFiles, acquire_writer_lock, file_sizes, vector_path
from mocosearch_index.paths import is_reachable, shown
from mocosearch_index.records import (
    CompactReport,
    EmbeddedPhoto,
    EncoderIdentity,
    FileStamp,
    Float32,
    IndexSettings,
    KnownFile,
    Photo,
    PhotoFilter,
    PhotoState,
    Problem,
    SearchReport,
    SkippedPhoto,
    Version,
)
from mocosearch_index.search.levels import Selection
from mocosearch_index.unit_rows import examples, unit_rows
from mocosearch_index.vectors import Float16, Int64, VectorFile
from mocosearch_index.verification import inspect, mend, mend_vector_file

_ALL = PhotoFilter()


def is_index(folder: Path) -> bool:
    """Tell whether `folder` holds an index."""
    return is_reachable(folder / CATALOG)


class ImageIndex:
    """An open index. Searching and reading are safe from many threads; a writer belongs to one thread.

    What is read from the catalog is always the last commit of any process; `search` sees commits of other
    processes after `refresh`.
    """

    def __init__(self, folder: Path, lock: FileLock | None) -> None:
        """Use `create` or `open`. `lock` is the held writer lock, None for a reader."""
        self.folder = folder
        self._lock = lock
        self._open = CurrentFiles(folder, writable=lock is not None)
        if lock is not None:
            with disk_errors_named(folder):
                self._open.files.vectors.cut(self._open.library.row_count)
                self._open.files.remove_leftovers(folder)
                remove_partials(folder)

    @classmethod
    def create(cls, folder: str | Path, *, root: str | Path, encoder: EncoderIdentity) -> Self:
        """Make an index without photos and open it for writing; IndexExists, IndexLocked, NotWritable."""
        folder, root = Path(folder), Path(root)
        with disk_errors_named(folder):
            # Photos are private, and so are their vectors.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = acquire_writer_lock(folder)
        try:
            if is_index(folder):
                raise IndexExists(f"There is an index in {shown(folder)} already: update it, or delete the folder.")
            identity = secrets.token_bytes(16)
            VectorFile.create(vector_path(folder, 1), encoder.dim, identity)
            # The catalog comes last: with it the index is there.
            Catalog.create(folder / CATALOG, identity, root_to_store(folder, root), encoder)
            return cls(folder, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, folder: str | Path, *, writable: bool = False) -> Self:
        """Open the index in `folder`; NotAnIndex, DamagedIndex, NewerFormat, IndexLocked, NotWritable."""
        folder = Path(folder)
        if not is_index(folder):
            raise not_an_index(folder)
        if not writable:
            return cls(folder, None)
        lock = acquire_writer_lock(folder)
        try:
            return cls(folder, lock)
        except BaseException:
            lock.release()
            raise

    @staticmethod
    def mend(folder: Path) -> list[Problem]:
        """Mend what keeps the index in `folder` from being opened, as far as it can be; return what it was.

        `verify` with `repair` does the rest. NotAnIndex, DamagedIndex, NewerFormat, IndexLocked, NotWritable.
        """
        if not is_index(folder):
            raise not_an_index(folder)
        lock = acquire_writer_lock(folder)
        try:
            with disk_errors_named(folder):
                return mend_vector_file(folder)
        finally:
            lock.release()

    def close(self) -> None:
        """Close the files and let the next writer in."""
        self._open.close()
        self._release()

    def discard(self) -> None:
        """Close, and remove what the index wrote, and its folder when nothing else is in it."""
        self._require_writer()
        self._open.close()
        try:
            for pattern in FILES:
                for path in self.folder.glob(pattern):
                    path.unlink()
            with suppress(OSError):  # not empty
                self.folder.rmdir()
        finally:
            self._release()  # last: what a next writer makes there is not ours to remove

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def root(self) -> Path:
        """The folder of the photos (it need not be there at the moment)."""
        return root_from_stored(self.folder, self._open.library.root)

    @property
    def encoder(self) -> EncoderIdentity:
        """The encoder that made all vectors."""
        return self._open.library.encoder

    @property
    def change(self) -> int:
        """The number of the commit that `search` shows at least."""
        return self._open.library.change

    @property
    def version(self) -> Version:
        """What tells this state from all others: an index that was made anew counts its commits from 0 again."""
        library = self._open.library
        return library.identity, library.change

    @property
    def settings(self) -> IndexSettings:
        """What a person chose for this library."""
        return self._open.library.settings

    # ---- writing

    def commit(
        self,
        embedded: Sequence[EmbeddedPhoto] = (),
        skipped: Sequence[SkippedPhoto] = (),
        missing: Sequence[int] = (),
        returned: Sequence[int] = (),
        moved: Sequence[tuple[int, FileStamp]] = (),
    ) -> None:
        """Do all of this in one durable step, or nothing of it.

        `missing`: ids whose file is gone; `returned`: ids of missing photos whose file is back, unchanged;
        `moved`: ids of photos whose content is at another path now, or has another time; they are indexed.
        Old paths are free when the new ones are entered, in the order given.
        ValueError (a vector that is not finite or of the wrong length, a path twice, a move to the path of
        another photo), UnknownPhoto (also for a move of what has no vector), DiskFull.
        """
        self._require_writer()
        stamps = [photo.stamp for photo in embedded] + [photo.stamp for photo in skipped]
        paths = [stamp.path for stamp in (*stamps, *(stamp for _, stamp in moved))]
        if len(set(paths)) != len(paths):
            raise ValueError("a path appears twice in one commit")
        vectors = unit_rows([photo.vector for photo in embedded], self.encoder.dim).astype(np.float16)
        self._open.files.search.drop_file()
        try:
            with self._open.files.catalog.commit() as commit:
                self._open.files.vectors.append(vectors, after=commit.row_count)
                commit.missing(missing)
                commit.returned(returned)
                commit.moved(moved)
                commit.embedded(embedded)
                commit.skipped(skipped)
        except DiskFull:
            # Give back what the torn commit took. After other errors the next writer does.
            with suppress(OSError):
                self._open.files.vectors.cut(self._open.files.catalog.library().row_count)
            raise
        self._open.committed()

    def set_settings(self, settings: IndexSettings) -> None:
        """Keep what a person chose, in a durable step of its own that others notice; DiskFull."""
        self._require_writer()
        self._open.files.search.drop_file()
        with self._open.files.catalog.commit() as commit:
            commit.settings(settings)
        self._open.committed()

    def save_search_file(self) -> None:
        """Write the search structure, so that the next process need not make it; DiskFull."""
        self._require_writer()
        self._open.files.search.save(self.change)

    def compact(self) -> CompactReport:
        """Forget missing photos and give the space of dead vectors back; readers go on undisturbed.

        The search file is written again, and what it takes is told with the rest.
        DamagedIndex when something is damaged (nothing is changed then), DiskFull.
        """
        self._require_writer()
        before = self.size_on_disk()
        forgotten, dropped = start_generation(self.folder, self._open.files)
        if forgotten or dropped:
            self._open.reopen()
            with disk_errors_named(self.folder):
                self._open.files.remove_leftovers(self.folder)
        self._open.files.catalog.compact_file()
        self.save_search_file()
        return CompactReport(forgotten, dropped, max(0, before - self.size_on_disk()))

    # ---- reading

    def refresh(self) -> bool:
        """Show what other processes committed; tell whether there was anything.

        EncoderMismatch when the index was deleted and made anew with another encoder.
        """
        return self._open.refresh()

    def known(self) -> dict[bytes, KnownFile]:
        """Return every file ever seen, by path."""
        with self._open.in_use() as files:
            return files.catalog.known()

    def photo(self, photo_id: int) -> Photo:
        """Return the photo with this id; UnknownPhoto."""
        with self._open.in_use() as files:
            return files.catalog.photo(photo_id)

    def photos_of(self, ids: Sequence[int]) -> dict[int, Photo]:
        """Return the photos among `ids` that are known, by their id; quicker than one by one."""
        with self._open.in_use() as files:
            return files.catalog.photos_of(ids)

    def photo_at(self, path: bytes) -> Photo | None:
        """Return the photo at this path (relative to the root), if one was ever there."""
        with self._open.in_use() as files:
            return files.catalog.photo_at(path)

    def photos(self, state: PhotoState | None = None) -> Iterator[Photo]:
        """Yield all photos, or those of one state, by ascending id."""
        with self._open.in_use() as files:
            yield from files.catalog.photos(state)

    def ids(self) -> Int64:
        """Return the ids (n,) of all indexed photos, ascending; quicker than `photos`."""
        with self._open.in_use() as files:
            return files.catalog.ids()

    def with_content(self, content_hash: bytes) -> list[Photo]:
        """Return the photos, indexed or missing, that have a vector and this content, by ascending id."""
        with self._open.in_use() as files:
            return files.catalog.with_content(content_hash)

    def sizes(self) -> set[int]:
        """Return the sizes in bytes of the files of all photos that have a vector."""
        with self._open.in_use() as files:
            return files.catalog.sizes()

    def select(self, where: PhotoFilter) -> Int64 | None:
        """Return the ids of the indexed photos that pass `where` but for its score; None when all pass."""
        with self._open.in_use() as files:
            return files.catalog.select(where)

    def counts(self) -> dict[str, int]:
        """Return how many photos are "indexed", "skipped" and "missing"."""
        with self._open.in_use() as files:
            return files.catalog.counts()

    def skip_reasons(self) -> dict[str, int]:
        """Return how many skipped files have each reason, the most frequent first."""
        with self._open.in_use() as files:
            return files.catalog.skip_reasons()

    def vectors(self, ids: Sequence[int]) -> Float32:
        """Return the stored vectors (n, dim) of these photos; UnknownPhoto, DamagedIndex."""
        stored = self._open.read(lambda files: files.vectors.read(files.catalog.rows_of(ids)))
        return stored.astype(np.float32)

    def all_vectors(self) -> tuple[Int64, Float16]:
        """Return the ids (n,) and stored vectors (n, dim) of all indexed photos; DamagedIndex."""

        def read(files: OpenFiles) -> tuple[Int64, Float16]:
            changes = files.catalog.changes(-1)
            vectors = np.empty((len(changes.ids), self.encoder.dim), np.float16)
            for part, block in files.vectors.blocks(changes.rows):
                vectors[part] = block
            return changes.ids, vectors

        return self._open.read(read)

    def search_report(self) -> SearchReport:
        """Tell what searches, and how well it does; DamagedIndex."""
        return self._open.read(lambda files: files.search.report(self.change))

    def search(self, queries: Float32, k: int, where: PhotoFilter = _ALL) -> list[list[tuple[int, float]]]:
        """Return for each query (q, dim) its k nearest indexed photos that pass `where` as (id, cosine), best first.

        ValueError for a wrong shape, a query not finite or all zeros, k < 1.
        """
        if queries.ndim != 2:
            raise ValueError(f"queries must be (q, {self.encoder.dim}), not {queries.shape}")
        unit = unit_rows(queries, self.encoder.dim)[:, None]
        return self._nearest(unit, unit[:, :0], k, where)

    def search_by_examples(
        self, like: Float32, unlike: Float32, k: int, where: PhotoFilter = _ALL
    ) -> list[tuple[int, float]]:
        """Return the k nearest indexed photos that pass `where` to one query, as (id, score), best first.

        Where the index is searched, of whitened vectors for instance, the query is the mean of the unit vectors of
        `like` (m, dim) less that of `unlike` (l, dim). A vector of zeros counts for nothing; nothing is found when
        the examples cancel out. ValueError for a wrong shape, no `like`, what is not finite, k < 1.
        """
        if not len(like):
            raise ValueError("there must be an example to search by")
        wanted, unwanted = (examples(vectors, self.encoder.dim)[None] for vectors in (like, unlike))
        return self._nearest(wanted, unwanted, k, where)[0]

    def _nearest(self, like: Float32, unlike: Float32, k: int, where: PhotoFilter) -> list[list[tuple[int, float]]]:
        """Search by unit vectors, or zeros, `like` (q, m, dim) and `unlike` (q, l, dim)."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        only = self.select(replace(where, exclude=frozenset()))  # nearly all ids, if it had to name all others
        selection = Selection(only, np.fromiter(where.exclude, np.int64))
        scores, ids = self._open.read(lambda files: files.search.search(like, unlike, k, self.change, selection))
        least = -1.0 if where.min_score is None else where.min_score
        return [_best(*pair, least) for pair in zip(ids, scores, strict=True)]

    def verify(self, repair: bool = False) -> list[Problem]:
        """Read everything that is stored and check it; return what is wrong, and with `repair` mend what can be.

        Repair is for the writer; a photo of which something was damaged is skipped until it is embedded again.
        """
        if not repair:
            return [damage.problem for damage in self._open.read(inspect)]
        self._require_writer()
        problems: list[Problem] = []
        before, now = None, inspect(self._open.files)
        while now and now != before:  # one repair may bring to light what another can mend
            problems += [damage.problem for damage in now if damage.problem not in problems]
            mend(self._open.files, now)
            before, now = now, inspect(self._open.files)
        self._open.committed()
        left = {damage.problem for damage in now}
        if not left:
            self.save_search_file()
        return [replace(problem, repaired=problem not in left) for problem in problems]

    def size_on_disk(self) -> int:
        """Return the bytes of all files in the folder."""
        return sum(size for _, size in self.file_sizes())

    def file_sizes(self) -> Iterator[tuple[Path, int]]:
        """Yield all files in the folder, by their paths from there, with their bytes."""
        return file_sizes(self.folder)

    # ---- inside

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _require_writer(self) -> None:
        if self._lock is None:
            raise ValueError("the index was opened for reading")


def _best(ids: Int64, scores: Float32, least: float) -> list[tuple[int, float]]:
    """Return (id, cosine) from `least` on, best first; equal scores by id, so that the order is always the same."""
    cosines = np.clip(scores, -1, 1)  # float16 rounds a little past 1
    order = np.lexsort((ids, -cosines))
    order = order[(ids[order] >= 0) & (cosines[order] >= least)]
    return list(zip(ids[order].tolist(), cosines[order].tolist(), strict=True))
