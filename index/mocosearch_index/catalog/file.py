"""Opening the catalog's SQLite file: its version, its journal, reading where nothing may be written."""

import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from mocosearch_index.atomic import disk_errors_named, disk_full, not_writable, storage_failed
from mocosearch_index.catalog.schema import APPLICATION_ID, MIGRATIONS, SCHEMA, VERSION, Migration
from mocosearch_index.errors import REBUILD, DamagedIndex, IndexLocked, NewerFormat, NotAnIndex, NotReadable
from mocosearch_index.filesystem import on_network_drive
from mocosearch_index.paths import shown

Value = bytes | int | str | None
_SIDE_FILES = ("-wal", "-journal")
_BUSY_SECONDS = 30
_UNREADABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM}


def checksum(*values: Value) -> int:
    """Return a crc32 over `values` that tells their types and borders apart."""
    crc = 0
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode()
        crc = zlib.crc32(data, zlib.crc32(b"%s %d " % (type(value).__name__.encode(), len(data)), crc))
    return crc


def create(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make the tables in the new file `path` and `fill` them, in one transaction."""
    with errors_named(path), closing(_connect(path, "rwc")) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA.split(";\n"):
            connection.execute(statement)
        fill(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


class CatalogFile:
    """An open catalog: `connection`, and whether the file at `path` is still the one that was opened."""

    def __init__(self, path: Path, *, writable: bool, write_ahead: bool | None = None) -> None:
        """Open `path`; `write_ahead` None: use the write-ahead log wherever it works."""
        self.path = path
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._live = True  # commits of others show in `connection` by themselves
        if not path.exists():
            raise not_an_index(path.parent)
        if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
            raise NotReadable(f"Cannot read {shown(path)}: change its permissions.")
        with errors_named(path):
            if writable:
                self.connection = _connect(path, "rw")
                _check_version(self.connection, path)
                migrate(self.connection, MIGRATIONS, VERSION)
                self._set_journal(not on_network_drive(path.parent) if write_ahead is None else write_ahead)
            else:
                self._open_for_reading()
                _check_version(self.connection, path)
                if _version(self.connection) < VERSION:
                    self._read_a_newer_copy()
        self._stamp = self._stamp_now()

    def close(self) -> None:
        """Close the connection; the last one to close a catalog folds the write-ahead log into it."""
        self.connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    def replaced(self) -> bool:
        """Tell whether `path` must be opened again to show what is there now."""
        with suppress(FileNotFoundError):  # nothing new to show while the folder is gone
            return self._stamp_now() != self._stamp
        return False

    def _set_journal(self, write_ahead: bool) -> None:
        # With the log a commit syncs once and readers never wait. FULL: a commit survives lost power.
        self.connection.execute("PRAGMA synchronous = FULL")
        mode = "wal" if write_ahead else "delete"
        self.connection.execute(f"PRAGMA journal_mode = {mode}")  # keeps the old mode where `mode` cannot work

    def _open_for_reading(self) -> None:
        try:
            self.connection = _connect(self.path, "ro")
            self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _UNREADABLE:
                raise
            # A read-only folder or a full disk: no place for the file by which all share the log.
            self.connection.close()
            self._live = False
            self._open_frozen()

    def _open_frozen(self) -> None:
        sides = [_beside(self.path, end) for end in _SIDE_FILES]
        if not any(side.exists() and side.stat().st_size for side in sides):
            self.connection = _connect(self.path, "ro&immutable=1")
            return
        # `immutable` would ignore commits that are still in the log, so SQLite gets a copy to work on.
        self._copy = tempfile.TemporaryDirectory(prefix="mocosearch-", ignore_cleanup_errors=True)
        copy = Path(self._copy.name) / self.path.name
        for source in (self.path, *sides):
            if source.exists():
                shutil.copyfile(source, copy.with_name(source.name))
        self.connection = _connect(copy, "rw")

    def _read_a_newer_copy(self) -> None:
        """Read a copy in today's schema: a reader changes nothing in the folder."""
        self._live = False
        folder = tempfile.TemporaryDirectory(prefix="mocosearch-", ignore_cleanup_errors=True)
        copy = _connect(Path(folder.name) / self.path.name, "rwc")
        self.connection.backup(copy)
        self.close()
        self._copy, self.connection = folder, copy
        migrate(copy, MIGRATIONS, VERSION)

    def _stamp_now(self) -> tuple[object, ...]:
        first = self.path.stat()
        if self._live:
            return first.st_dev, first.st_ino
        log = _beside(self.path, "-wal")
        second = log.stat() if log.exists() else None
        sizes = [(file.st_size, file.st_mtime_ns) for file in (first, second) if file is not None]
        return first.st_dev, first.st_ino, *sizes


def migrate(connection: sqlite3.Connection, steps: Mapping[int, Migration], target: int) -> None:
    """Bring the schema to version `target`, one step and one transaction at a time."""
    while (version := _version(connection)) < target:
        connection.execute("BEGIN IMMEDIATE")
        try:
            steps[version](connection)
            connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite itself rolls back when the disk is full
                connection.execute("ROLLBACK")
            raise


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the system about the catalog `path` into typed ones that name a remedy."""
    folder = path.parent
    try:
        with disk_errors_named(folder):
            yield
    except UnicodeDecodeError as error:  # the text of an error of SQLite that quotes the damage
        raise _damaged(path, error) from error
    except sqlite3.DatabaseError as error:
        extended = getattr(error, "sqlite_errorcode", None)
        if extended is None:  # a mistake in using the module, not an error of the file
            raise
        primary = extended & 0xFF
        if primary == sqlite3.SQLITE_FULL or extended == sqlite3.SQLITE_IOERR_SHMSIZE:
            raise disk_full(folder) from error
        if primary in (
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
            sqlite3.SQLITE_ERROR,
        ):  # ERROR: other tables
            raise _damaged(path, error) from error
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise IndexLocked(
                f"Another process keeps {shown(path)} locked: wait until it has finished and try again."
            ) from error
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise not_writable(folder) from error
        if primary == sqlite3.SQLITE_IOERR:
            raise storage_failed(folder, str(error)) from error
        raise


def not_an_index(folder: Path) -> NotAnIndex:
    """Return the error that says that `folder` holds no index."""
    return NotAnIndex(
        f"There is no index in {shown(folder)}: connect the drive that holds it, or make one with `mocosearch index`."
    )


def _damaged(path: Path, error: Exception) -> DamagedIndex:
    return DamagedIndex(f"The catalog {shown(path)} is damaged ({error}): {REBUILD}")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,  # transactions are begun and ended in plain sight
        check_same_thread=False,  # the Catalog lets one thread in at a time
    )
    connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")  # damaged text is still shown
    connection.create_function("checksum", -1, checksum, deterministic=True)
    return connection


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    if version > VERSION:
        raise NewerFormat(
            f"The index in {shown(path.parent)} was made by a newer mocosearch "
            f"(format {version}, this one reads up to {VERSION}): update mocosearch."
        )
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if version < 1 or application != APPLICATION_ID:
        raise NotAnIndex(f"{shown(path)} is not a catalog of mocosearch: move it away and index the photos again.")


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)
