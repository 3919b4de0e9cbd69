"""The catalog: in SQLite one row a photo, and one that says what the library is. Truth, with the vectors."""

import json
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mocosearch_index.atomic import atomic_path
from mocosearch_index.catalog import file as catalog_file
from mocosearch_index.catalog.commit import Commit, unknown
from mocosearch_index.catalog.file import CatalogFile, Value, checksum, errors_named
from mocosearch_index.catalog.library_row import LibraryRow, settings_from_json, settings_to_json
from mocosearch_index.catalog.schema import CONTENT, LIBRARY, STAMP
from mocosearch_index.errors import REBUILD, VERIFY, DamagedIndex, NewGeneration
from mocosearch_index.paths import shown
from mocosearch_index.records import EncoderIdentity, IndexSettings, KnownFile, Photo, PhotoFilter, PhotoState
from mocosearch_index.vectors import Int64

_PHOTO = f"id, {CONTENT}, checksum"  # what `_photo` reads
_PAGE = 1000  # photos fetched at once, so that a long loop over them holds no lock
# What SQLite says of indexes and values; all else is about the tree itself, whose rows it might give round and round.
_TREE_IS_SOUND = re.compile(
    r"row \d+ missing from index|wrong # of entries in index|non-unique entry in|CHECK constraint"
)


@dataclass(frozen=True, slots=True)
class Changes:
    """One consistent look: the library, and photos changed since, with their row or -1 if not searchable."""

    library: LibraryRow
    ids: Int64
    rows: Int64


class Catalog:
    """Reads show the last commit; safe to use from many threads.

    What tells of rows of the vector file tells of those of the generation that it was opened with, or raises
    NewGeneration.
    """

    def __init__(self, path: Path, *, writable: bool = False, write_ahead: bool | None = None) -> None:
        self.path = path
        self._file = CatalogFile(path, writable=writable, write_ahead=write_ahead)
        self._lock = threading.RLock()
        try:
            self.generation = self.library().generation
        except BaseException:
            self.close()
            raise

    @staticmethod
    def create(path: Path, identity: bytes, root: bytes | None, encoder: EncoderIdentity) -> None:
        """Write a catalog without photos; whole or not at all."""
        numbers = encoder.dim, 1, 0, 0
        values = identity, root, encoder.fingerprint, encoder.description, *numbers, settings_to_json(IndexSettings())

        def fill(connection: sqlite3.Connection) -> None:
            marks = ", ".join("?" * (len(values) + 1))
            statement = f"INSERT INTO library ({LIBRARY}, checksum) VALUES ({marks})"
            connection.execute(statement, (*values, checksum(*values)))

        with atomic_path(path) as partial:
            catalog_file.create(partial, fill)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def replaced(self) -> bool:
        """Tell whether the catalog must be opened anew to show what is at its path."""
        return self._file.replaced()

    def library(self) -> LibraryRow:
        """Return what the last commit says about the whole."""
        rows = self._all(f"SELECT {LIBRARY}, checksum FROM library")
        if len(rows) != 1 or rows[0][-1] != checksum(*rows[0][:-1]):
            raise DamagedIndex(f"The catalog {shown(self.path)} is damaged: {REBUILD}")
        identity, root, fingerprint, description, dim, generation, row_count, change, settings, _ = rows[0]
        encoder = EncoderIdentity(fingerprint, dim, description)
        return LibraryRow(identity, root, encoder, generation, row_count, change, settings_from_json(settings))

    def known(self) -> dict[bytes, KnownFile]:
        """Return every file ever seen, by path."""
        # `state` is compared here, for text is slow to read and of most photos nothing else is text.
        rows = self._all(f"SELECT {STAMP}, id, state = 'missing', reason, decoder FROM photo")
        new = tuple.__new__  # what the class itself would call, in half of the time
        known = {row[0]: new(KnownFile, row) for row in rows}
        if not {bytes}.issuperset(map(type, known)):
            raise DamagedIndex(f"The catalog {shown(self.path)} holds damaged entries: {VERIFY}")
        return known

    def photo(self, photo_id: int) -> Photo:
        """Return the photo with this id; UnknownPhoto, DamagedIndex."""
        rows = self._all(f"SELECT {_PHOTO} FROM photo WHERE id = ?", (int(photo_id),))
        if not rows:
            raise unknown(photo_id)
        return self._photo(rows[0])

    def photo_at(self, path: bytes) -> Photo | None:
        """Return the photo at this path, if one was ever there."""
        rows = self._all(f"SELECT {_PHOTO} FROM photo WHERE path = ?", (path,))
        return self._photo(rows[0]) if rows else None

    def photos(self, state: PhotoState | None = None) -> Iterator[Photo]:
        """Yield the photos (of one state) by ascending id."""
        # By the index of `state` SQLite would find, and sort, all that are left again for every page.
        condition = "" if state is None else "AND +state = ?"
        for row in self._each(_PHOTO, condition, () if state is None else (state,)):
            yield self._photo(row)

    def photos_of(self, ids: Sequence[int]) -> dict[int, Photo]:
        """Return the photos among `ids` that are known, by their id; DamagedIndex."""
        wanted = json.dumps([int(photo_id) for photo_id in ids])
        rows = self._all(f"SELECT {_PHOTO} FROM photo WHERE id IN (SELECT value FROM json_each(?))", (wanted,))
        return {photo.id: photo for photo in map(self._photo, rows)}

    def ids(self) -> Int64:
        """Return the ids of all indexed photos, ascending."""
        return self._ids("state = 'indexed' ORDER BY id", ())

    def with_content(self, content_hash: bytes) -> list[Photo]:
        """Return the photos that have a vector and this content, by ascending id."""
        condition = "content_hash = ? AND row IS NOT NULL ORDER BY id"
        rows = self._all(f"SELECT {_PHOTO} FROM photo WHERE {condition}", (content_hash,))
        return [self._photo(row) for row in rows]

    def sizes(self) -> set[int]:
        """Return the sizes of the files of all photos that have a vector."""
        return {size for (size,) in self._all("SELECT DISTINCT size FROM photo WHERE row IS NOT NULL")}

    def select(self, where: PhotoFilter) -> Int64 | None:
        """Return the ids of the indexed photos that pass `where`; None when all of them pass."""
        conditions = _conditions(where)
        if not conditions and not where.exclude:
            return None
        # Each condition has an index; SQLite would use that of one and look in the table for the others.
        (condition, values), *others = conditions or [("state = 'indexed'", ())]
        ids = self._ids(f"+state = 'indexed' AND {condition}", values)
        for condition, values in others:
            ids = np.intersect1d(ids, self._ids(condition, values), assume_unique=True)
        return np.setdiff1d(ids, np.fromiter(where.exclude, np.int64), assume_unique=True)

    def counts(self) -> dict[str, int]:
        """Return how many photos are in each state; every state is there."""
        found = dict(self._all("SELECT state, count(*) FROM photo GROUP BY state"))
        return {state: found.get(state, 0) for state in ("indexed", "skipped", "missing")}

    def skip_reasons(self) -> dict[str, int]:
        """Return how many skipped files have each reason, the most frequent first."""
        statement = "SELECT reason, count(*) FROM photo WHERE state = 'skipped' GROUP BY reason ORDER BY 2 DESC, 1"
        return dict(self._all(statement))

    def rows_of(self, ids: Sequence[int]) -> list[int]:
        """Return the vector rows of these photos; UnknownPhoto when one has none."""
        with self._one_generation():
            return [self._row_of(photo_id) for photo_id in ids]

    def changes(self, since: int) -> Changes:
        """Return the photos changed by commits after `since` (-1: all indexed ones, by ascending row)."""
        statement = "SELECT id, CASE state WHEN 'indexed' THEN row ELSE -1 END FROM photo WHERE changed > ?"
        if since < 0:
            statement = "SELECT id, row FROM photo WHERE state = 'indexed' AND changed > ? ORDER BY row"
        with self._one_generation() as library:
            pairs = np.array(self._all(statement, (since,)), np.int64).reshape(-1, 2)
        return Changes(library, pairs[:, 0].copy(), pairs[:, 1].copy())

    def rows_in_use(self) -> tuple[Int64, Int64]:
        """Return all rows of the vector file that belong to a photo, ascending, and the ids of their photos."""
        with self._one_generation():
            pairs = self._all("SELECT row, id FROM photo WHERE row IS NOT NULL ORDER BY row")
        rows, ids = np.array(pairs, np.int64).reshape(-1, 2).T
        return rows.copy(), ids.copy()

    def rows_to_keep(self) -> Int64:
        """Return the rows of the vector file that belong to photos whose file is there, ascending."""
        statement = "SELECT row FROM photo WHERE row IS NOT NULL AND state != 'missing' ORDER BY row"
        with self._one_generation():
            return np.array(self._all(statement), np.int64).ravel()

    @contextmanager
    def commit(self) -> Iterator[Commit]:
        """One transaction: durable when the block ends, undone when it raises."""
        with self._lock, errors_named(self.path):
            connection = self._file.connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                commit = Commit(connection, self.library())
                yield commit
                commit.finish()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite itself rolls back when the disk is full
                    connection.execute("ROLLBACK")
                raise

    def compact_file(self) -> None:
        """Give the space that the file does not need back to the disk; DiskFull when there is none to work in."""
        with self._lock, errors_named(self.path):
            self._file.connection.execute("VACUUM")
            self._file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def broken_structure(self) -> list[str]:
        """Return what SQLite finds wrong with the file."""
        return [text for (text,) in self._all("PRAGMA integrity_check") if text != "ok"]

    def mend_structure(self) -> None:
        """Make the indexes of SQLite anew, unless the photos themselves contradict each other."""
        with self._lock, errors_named(self.path), suppress(sqlite3.IntegrityError):
            self._file.connection.execute("REINDEX")

    def damaged_entries(self, broken: Sequence[str]) -> list[tuple[int, bytes]]:
        """Return id and path of the photos whose entry fails its checksum or names a row that is none.

        `broken`: what is wrong with the structure; where no list of photos can be trusted it is empty.
        """
        if not all(_TREE_IS_SOUND.match(text) for text in broken):
            return []
        damaged, late = [], []
        row_count = self.library().row_count
        for photo_id, *content, row, crc in self._each(f"id, {CONTENT}, row, checksum"):
            path = content[0]
            if crc != checksum(*content):  # then it may have any type
                damaged.append((photo_id, path if isinstance(path, bytes) else str(path).encode()))
            elif row is not None and not 0 <= row < row_count:
                late.append((photo_id, path, row))
        with self._one_generation() as library:  # rows may have been added since the first page was read
            return damaged + [(photo_id, path) for photo_id, path, row in late if not 0 <= row < library.row_count]

    @contextmanager
    def _one_generation(self) -> Iterator[LibraryRow]:
        """Let the block see one commit of this generation; NewGeneration when there is none any more."""
        with self._lock, errors_named(self.path):
            self._file.connection.execute("BEGIN")
            try:
                library = self.library()
                if library.generation != self.generation:
                    raise NewGeneration
                yield library
            finally:
                if self._file.connection.in_transaction:
                    self._file.connection.execute("COMMIT")

    def _photo(self, row: tuple[Any, ...]) -> Photo:
        """Return the photo in `row`, which holds the columns of _PHOTO; DamagedIndex when it fails its checksum."""
        photo_id, *content, crc = row
        if crc != checksum(*content):  # then a value may have any type
            raise DamagedIndex(f"The catalog's entry of photo {photo_id} fails its checksum: {VERIFY}")
        return Photo(photo_id, *content[:8], *content[9:11])  # all but its row, and what is behind `detail`

    def _ids(self, condition: str, values: Sequence[Value]) -> Int64:
        return np.array(self._all(f"SELECT id FROM photo WHERE {condition}", values), np.int64).ravel()

    def _row_of(self, photo_id: int) -> int:
        rows = self._all("SELECT row FROM photo WHERE id = ? AND row IS NOT NULL", (int(photo_id),))
        if not rows:
            raise unknown(photo_id)
        return int(rows[0][0])

    def _each(self, columns: str, condition: str = "", values: tuple[object, ...] = ()) -> Iterator[Any]:
        """Yield `columns`, the first of which is `id`, of all photos that meet `condition`, page by page."""
        last = 0
        statement = f"SELECT {columns} FROM photo WHERE id > ? {condition} ORDER BY id LIMIT {_PAGE}"
        while page := self._all(statement, (last, *values)):
            yield from page
            last = page[-1][0]

    def _all(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with self._lock, errors_named(self.path):
            return self._file.connection.execute(statement, values).fetchall()


def _conditions(where: PhotoFilter) -> list[tuple[str, Sequence[Value]]]:
    """Return what SQLite has to look for, with the values in it; nothing of `exclude` and `min_score`."""
    conditions: list[tuple[str, Sequence[Value]]] = []
    if where.taken_from is not None or where.taken_until is not None:
        # NULL, a date that is not known, is in no range; every date comes before a colon.
        conditions.append(("taken_at BETWEEN ? AND ?", (where.taken_from or "", where.taken_until or ":")))
    if where.ids is not None:
        conditions.append(("id IN (SELECT value FROM json_each(?))", (json.dumps(sorted(map(int, where.ids))),)))
    if where.folder:
        conditions.append(("path > ? AND path < ?", (where.folder + b"/", where.folder + b"0")))  # 0 comes after /
    return conditions
