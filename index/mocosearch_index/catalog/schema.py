"""The tables of the catalog, and how those of older versions become today's."""

import sqlite3
from collections.abc import Callable, Mapping

VERSION = 2
APPLICATION_ID = 0x6D6F636F  # "moco", so that `file catalog.sqlite` names it

SCHEMA = """
CREATE TABLE library (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    identity BLOB NOT NULL,              -- random; also in the vector file: two indexes never mix
    root BLOB,                           -- absolute path; NULL: the folder that holds the index folder
    encoder_fingerprint TEXT NOT NULL,
    encoder_description TEXT NOT NULL,
    dim INTEGER NOT NULL,
    generation INTEGER NOT NULL,         -- number in the name of the vector file
    row_count INTEGER NOT NULL,          -- rows of the vector file that are committed
    change INTEGER NOT NULL,             -- one more with every commit
    settings TEXT NOT NULL,              -- JSON: what a person chose for this library
    checksum INTEGER NOT NULL
);
CREATE TABLE photo (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
    path BLOB NOT NULL UNIQUE,             -- relative to the root
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    content_hash BLOB,
    width INTEGER,
    height INTEGER,
    taken_at TEXT,
    state TEXT NOT NULL CHECK (state IN ('indexed', 'skipped', 'missing')),
    row INTEGER UNIQUE,                    -- in the vector file; a missing photo keeps it: it may return
    reason TEXT,
    detail TEXT,
    decoder TEXT,
    changed INTEGER NOT NULL,              -- the library's `change` when this row last changed
    checksum INTEGER NOT NULL              -- of all columns before it but the id
);
CREATE INDEX photo_state ON photo (state, reason);
CREATE INDEX photo_changed ON photo (changed);
CREATE INDEX photo_content ON photo (content_hash);
CREATE INDEX photo_taken ON photo (taken_at, state);
"""

# Lists of columns, in the order of their checksums.
LIBRARY = "identity, root, encoder_fingerprint, encoder_description, dim, generation, row_count, change, settings"
STAMP = "path, size, mtime_ns"
CONTENT = f"{STAMP}, content_hash, width, height, taken_at, state, row, reason, detail, decoder, changed"

Migration = Callable[[sqlite3.Connection], None]


def _add_settings(connection: sqlite3.Connection) -> None:
    """Version 1 knew no settings, and looked nothing up by content or date."""
    old = "identity, root, encoder_fingerprint, encoder_description, dim, generation, row_count, change"
    settings = """'{"search": {}, "walk": {}}'"""
    connection.execute("ALTER TABLE library RENAME TO library_1")
    connection.execute(
        """CREATE TABLE library (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    identity BLOB NOT NULL,              -- random; also in the vector file: two indexes never mix
    root BLOB,                           -- absolute path; NULL: the folder that holds the index folder
    encoder_fingerprint TEXT NOT NULL,
    encoder_description TEXT NOT NULL,
    dim INTEGER NOT NULL,
    generation INTEGER NOT NULL,         -- number in the name of the vector file
    row_count INTEGER NOT NULL,          -- rows of the vector file that are committed
    change INTEGER NOT NULL,             -- one more with every commit
    settings TEXT NOT NULL,              -- JSON: what a person chose for this library
    checksum INTEGER NOT NULL
)"""
    )
    # What was damaged before is damaged after: no checksum is ever negative.
    connection.execute(
        f"INSERT INTO library SELECT one, {old}, {settings}, "
        f"CASE checksum WHEN checksum({old}) THEN checksum({old}, {settings}) ELSE -1 END FROM library_1"
    )
    connection.execute("DROP TABLE library_1")
    connection.execute("CREATE INDEX photo_content ON photo (content_hash)")
    connection.execute("CREATE INDEX photo_taken ON photo (taken_at, state)")


MIGRATIONS: Mapping[int, Migration] = {1: _add_settings}  # from version N to N + 1, for every N below VERSION
