"""The catalog: in SQLite one row a photo, and one that says what the library is. Truth, with the vectors."""

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mocosearch_index import catalog_file
from mocosearch_index.atomic import atomic_path
from mocosearch_index.catalog_file import CatalogFile, Value, checksum, errors_named
from mocosearch_index.errors import REBUILD, DamagedIndex, UnknownPhoto
from mocosearch_index.paths import printable, shown
from mocosearch_index.records import (
    EmbeddedPhoto,
    EncoderIdentity,
    FileStamp,
    IndexSettings,
    KnownFile,
    Photo,
    PhotoFilter,
    PhotoState,
    Problem,
    SearchSettings,
    SkippedPhoto,
)

Int64 = NDArray[np.int64]

_LIBRARY = "identity, root, encoder_fingerprint, encoder_description, dim, generation, row_count, change, settings"
_STAMP = "path, size, mtime_ns"
_CONTENT = f"{_STAMP}, content_hash, width, height, taken_at, state, row, reason, detail, decoder, changed"
_PHOTO = f"id, {_STAMP}, content_hash, width, height, taken_at, state, reason, detail"
_PUT = (
    f"INSERT INTO photo ({_CONTENT}, checksum) VALUES ({', '.join('?' * (_CONTENT.count(',') + 2))}) "
    "ON CONFLICT (path) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in [*_CONTENT.split(", ")[1:], "checksum"])
)
_PAGE = 1000  # photos fetched at once, so that a long loop over them holds no lock


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """What the catalog says about the whole: see the columns of `library` in the schema."""

    identity: bytes
    root: bytes | None
    encoder: EncoderIdentity
    generation: int
    row_count: int
    change: int
    settings: IndexSettings


@dataclass(frozen=True, slots=True)
class Changes:
    """One consistent look: the library, and photos changed since, with their row or -1 if not searchable."""

    library: LibraryRow
    ids: Int64
    rows: Int64


class Catalog:
    """Reads show the last commit; safe to use from many threads."""

    def __init__(self, path: Path, *, writable: bool = False, write_ahead: bool | None = None) -> None:
        self.path = path
        self._file = CatalogFile(path, writable=writable, write_ahead=write_ahead)
        self._lock = threading.RLock()

    @staticmethod
    def create(path: Path, identity: bytes, root: bytes | None, encoder: EncoderIdentity) -> None:
        """Write a catalog without photos; whole or not at all."""
        values = (
            identity,
            root,
            encoder.fingerprint,
            encoder.description,
            encoder.dim,
            1,
            0,
            0,
            _to_json(IndexSettings()),
        )

        def fill(connection: sqlite3.Connection) -> None:
            marks = ", ".join("?" * (len(values) + 1))
            statement = f"INSERT INTO library ({_LIBRARY}, checksum) VALUES ({marks})"
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
        rows = self._all(f"SELECT {_LIBRARY}, checksum FROM library")
        if len(rows) != 1 or rows[0][-1] != checksum(*rows[0][:-1]):
            raise DamagedIndex(f"The catalog {shown(self.path)} is damaged: {REBUILD}")
        identity, root, fingerprint, description, dim, generation, row_count, change, settings, _ = rows[0]
        encoder = EncoderIdentity(fingerprint, dim, description)
        return LibraryRow(identity, root, encoder, generation, row_count, change, _from_json(settings))

    def known(self) -> dict[bytes, KnownFile]:
        """Return every file ever seen, by path."""
        # `state` is compared here, for text is slow to read and of most photos nothing else is text.
        rows = self._all(f"SELECT {_STAMP}, id, state = 'missing', reason, decoder FROM photo")
        return {row[0]: KnownFile._make(row) for row in rows}

    def photo(self, photo_id: int) -> Photo:
        """Return the photo with this id or raise UnknownPhoto."""
        rows = self._all(f"SELECT {_PHOTO} FROM photo WHERE id = ?", (photo_id,))
        if not rows:
            raise _unknown(photo_id)
        return Photo(*rows[0])

    def photo_at(self, path: bytes) -> Photo | None:
        """Return the photo at this path, if one was ever there."""
        rows = self._all(f"SELECT {_PHOTO} FROM photo WHERE path = ?", (path,))
        return Photo(*rows[0]) if rows else None

    def photos(self, state: PhotoState | None = None) -> Iterator[Photo]:
        """Yield the photos (of one state) by ascending id."""
        condition = "" if state is None else "AND state = ?"
        for row in self._each(_PHOTO, condition, () if state is None else (state,)):
            yield Photo(*row)

    def with_content(self, content_hash: bytes) -> list[Photo]:
        """Return the photos that have a vector and this content, by ascending id."""
        condition = "content_hash = ? AND row IS NOT NULL ORDER BY id"
        return [Photo(*row) for row in self._all(f"SELECT {_PHOTO} FROM photo WHERE {condition}", (content_hash,))]

    def sizes(self) -> set[int]:
        """Return the sizes of the files of all photos that have a vector."""
        return {size for (size,) in self._all("SELECT DISTINCT size FROM photo WHERE row IS NOT NULL")}

    def select(self, where: PhotoFilter) -> Int64 | None:
        """Return the ids of the indexed photos that pass `where`, ascending; None when all of them pass."""
        conditions, values = _conditions(where)
        if not conditions and not where.exclude:
            return None
        # The plus keeps SQLite from going by the state, which nearly all photos share.
        state = "+state = 'indexed'" if conditions else "state = 'indexed'"
        statement = f"SELECT id FROM photo WHERE {' AND '.join([state, *conditions])}"
        ids = np.fromiter((photo_id for (photo_id,) in self._all(statement, values)), np.int64)
        return np.setdiff1d(ids, np.fromiter(where.exclude, np.int64), assume_unique=True)

    def counts(self) -> dict[str, int]:
        """Return how many photos are in each state; every state is there."""
        found = dict(self._all("SELECT state, count(*) FROM photo GROUP BY state"))
        return {state: found.get(state, 0) for state in ("indexed", "skipped", "missing")}

    def skip_reasons(self) -> dict[str, int]:
        """Return how many skipped files have each reason, the most frequent first."""
        statement = "SELECT reason, count(*) FROM photo WHERE state = 'skipped' GROUP BY reason ORDER BY 2 DESC, 1"
        return dict(self._all(statement))

    def row_of(self, photo_id: int) -> int:
        """Return the vector row of a photo; UnknownPhoto when it has none."""
        rows = self._all("SELECT row FROM photo WHERE id = ? AND row IS NOT NULL", (photo_id,))
        if not rows:
            raise _unknown(photo_id)
        return int(rows[0][0])

    def changes(self, since: int) -> Changes:
        """Return the photos changed by commits after `since` (-1: all indexed ones, by ascending row)."""
        statement = "SELECT id, CASE state WHEN 'indexed' THEN row ELSE -1 END FROM photo WHERE changed > ?"
        if since < 0:
            statement = "SELECT id, row FROM photo WHERE state = 'indexed' AND changed > ? ORDER BY row"
        with self._lock, errors_named(self.path):
            self._file.connection.execute("BEGIN")
            try:
                library = self.library()
                pairs = np.array(self._all(statement, (since,)), np.int64).reshape(-1, 2)
            finally:
                self._file.connection.execute("COMMIT")
        return Changes(library, pairs[:, 0].copy(), pairs[:, 1].copy())

    def rows_in_use(self) -> Int64:
        """Return all rows of the vector file that belong to a photo, ascending."""
        return np.array(self._all("SELECT row FROM photo WHERE row IS NOT NULL ORDER BY row"), np.int64).ravel()

    @contextmanager
    def commit(self) -> Iterator["Commit"]:
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

    def problems(self) -> list[Problem]:
        """Check the structure of the file and the checksum of every row."""
        found = [text for (text,) in self._all("PRAGMA integrity_check") if text != "ok"]
        problems = [Problem(f"The catalog {shown(self.path)}: {text}", REBUILD) for text in found]
        if problems:  # the rows of a broken tree might be read round and round
            return problems
        row_count = self.library().row_count
        for _, *content, row, crc in self._each(f"id, {_CONTENT}, row, checksum"):
            if crc != checksum(*content) or not (row is None or 0 <= row < row_count):
                what = f"The catalog's entry of '{printable(content[0])}' fails its checksum"
                problems.append(Problem(what, REBUILD))
        return problems

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


class Commit:
    """What can be done within one transaction of the catalog."""

    def __init__(self, connection: sqlite3.Connection, library: LibraryRow) -> None:
        self.row_count = library.row_count  # rows committed before
        self._connection = connection
        self._rows_added = 0
        self._change = library.change + 1

    def embedded(self, photos: Iterable[EmbeddedPhoto]) -> None:
        """Enter photos whose vectors are the next rows of the vector file, in this order."""
        for photo in photos:
            row = self.row_count + self._rows_added
            size = photo.width, photo.height
            self._put(photo.stamp, photo.content_hash, *size, photo.taken_at, "indexed", row, None, None, None)
            self._rows_added += 1

    def skipped(self, photos: Iterable[SkippedPhoto]) -> None:
        """Enter files that could not be embedded; what was known of an earlier content is dropped."""
        for photo in photos:
            detail = photo.detail.encode("utf-8", "backslashreplace").decode()
            self._put(photo.stamp, None, None, None, None, "skipped", None, photo.reason, detail, photo.decoder)

    def missing(self, ids: Iterable[int]) -> None:
        """Note that the files of these photos are gone."""
        for photo_id in ids:
            self._set_state(photo_id, "'missing'")

    def returned(self, ids: Iterable[int]) -> None:
        """Undo `missing` for files that came back unchanged."""
        for photo_id in ids:
            self._set_state(photo_id, "CASE WHEN row IS NULL THEN 'skipped' ELSE 'indexed' END")

    def moved(self, photos: Iterable[tuple[int, FileStamp]]) -> None:
        """Note that these photos, with their vectors, are now at other paths or have other times."""
        for photo_id, stamp in photos:
            known = "SELECT 1 FROM photo WHERE path = ? AND id != ?"
            if self._connection.execute(known, (stamp.path, photo_id)).fetchone():
                raise ValueError(f"photo {photo_id} cannot move to a path that another photo has")
            self._update(
                "path = ?, size = ?, mtime_ns = ?, state = 'indexed' WHERE row IS NOT NULL AND",
                (stamp.path, stamp.size, stamp.mtime_ns),
                photo_id,
            )

    def settings(self, settings: IndexSettings) -> None:
        """Replace what a person chose."""
        self._connection.execute("UPDATE library SET settings = ?", (_to_json(settings),))

    def finish(self) -> None:
        """Count the commit."""
        self._connection.execute(
            "UPDATE library SET row_count = row_count + ?, change = ?", (self._rows_added, self._change)
        )
        self._connection.execute(f"UPDATE library SET checksum = checksum({_LIBRARY})")

    def _put(self, stamp: FileStamp, *content: Value) -> None:
        values = (stamp.path, stamp.size, stamp.mtime_ns, *content, self._change)
        self._connection.execute(_PUT, (*values, checksum(*values)))

    def _set_state(self, photo_id: int, expression: str) -> None:
        self._update(f"state = {expression} WHERE", (), photo_id)

    def _update(self, assignments: str, values: Sequence[Value], photo_id: int) -> None:
        """Change the entry of a photo; UnknownPhoto when there is none, or none that meets the condition."""
        statement = f"UPDATE photo SET changed = ?, {assignments} id = ?"
        if self._connection.execute(statement, (self._change, *values, photo_id)).rowcount != 1:
            raise _unknown(photo_id)
        statement = f"UPDATE photo SET checksum = checksum({_CONTENT}) WHERE id = ?"
        self._connection.execute(statement, (photo_id,))


def _conditions(where: PhotoFilter) -> tuple[list[str], list[Value]]:
    """Return what SQLite has to look for, and the values in it; nothing of `exclude` and `min_score`."""
    conditions: list[str] = []
    values: list[Value] = []

    def add(condition: str, *of: Value) -> None:
        conditions.append(condition)
        values.extend(of)

    if where.folder:
        add("path > ? AND path < ?", where.folder + b"/", where.folder + b"0")  # 0 comes after /
    if where.taken_from is not None:
        add("taken_at >= ?", where.taken_from)
    if where.taken_until is not None:
        add("taken_at <= ?", where.taken_until)
    if where.ids is not None:
        add("id IN (SELECT value FROM json_each(?))", json.dumps(sorted(where.ids)))
    return conditions, values


def _to_json(settings: IndexSettings) -> str:
    walk = {"include": settings.include, "exclude": settings.exclude}
    return json.dumps({"search": asdict(settings.search), "walk": walk})


def _from_json(text: str) -> IndexSettings:
    data = json.loads(text)
    walk = {name: tuple(patterns) for name, patterns in data["walk"].items()}
    return IndexSettings(SearchSettings(**data["search"]), **walk)


def root_to_store(folder: Path, root: Path) -> bytes | None:
    """Return what `library.root` holds: nothing when `folder` lies in `root`, so that both can move."""
    if folder.resolve().parent == root.resolve():
        return None
    return os.fsencode(root.resolve())


def root_from_stored(folder: Path, stored: bytes | None) -> Path:
    """Return the library root of the index in `folder`."""
    return folder.absolute().parent if stored is None else Path(os.fsdecode(stored))


def _unknown(photo_id: int) -> UnknownPhoto:
    return UnknownPhoto(f"The index has no photo {photo_id}: search again, the library may have changed.")
