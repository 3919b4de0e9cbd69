"""One transaction of the catalog: all that can be written in it."""

import sqlite3
from collections.abc import Iterable, Sequence

from mocosearch_index.catalog.file import Value, checksum
from mocosearch_index.catalog.library_row import LibraryRow, settings_to_json
from mocosearch_index.catalog.schema import CONTENT, LIBRARY
from mocosearch_index.errors import DamagedIndex, UnknownPhoto
from mocosearch_index.records import EmbeddedPhoto, FileStamp, IndexSettings, SkippedPhoto
from mocosearch_index.vectors import Int64

_PUT = (
    f"INSERT INTO photo ({CONTENT}, checksum) VALUES ({', '.join('?' * (CONTENT.count(',') + 2))}) "
    "ON CONFLICT (path) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in [*CONTENT.split(", ")[1:], "checksum"])
)


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

    def doubt(self, ids: Iterable[int], reason: str) -> None:
        """Drop what was known of photos whose entry or vector is damaged; their next reading starts from nothing."""
        for photo_id in ids:
            self._update(
                "path = CAST(path AS BLOB), size = 0, mtime_ns = 0, content_hash = NULL, width = NULL, height = NULL, "
                "taken_at = NULL, state = 'skipped', row = NULL, reason = ?, detail = ?, decoder = '' WHERE",
                (reason, "what the index held of it was damaged"),
                photo_id,
            )

    def compact(self, rows: Int64) -> int:
        """Forget missing photos and begin a generation of the vector file that holds `rows`, all that is left.

        Return how many photos were forgotten. DamagedIndex when an entry fails its checksum: it would get a new one.
        """
        forgotten = self._connection.execute("DELETE FROM photo WHERE state = 'missing'").rowcount
        damaged = f"SELECT count(*) FROM photo WHERE checksum != checksum({CONTENT})"
        if self._connection.execute(damaged).fetchone() != (0,):
            raise DamagedIndex("The catalog holds damaged entries: run `mocosearch verify` first.")
        # Rows only move towards the front, into places that are free by then.
        self._connection.executemany("UPDATE photo SET row = ? WHERE row = ?", enumerate(rows.tolist()))
        self._connection.execute(f"UPDATE photo SET checksum = checksum({CONTENT}) WHERE row IS NOT NULL")
        self._connection.execute("UPDATE library SET generation = generation + 1, row_count = ?", (len(rows),))
        return forgotten

    def settings(self, settings: IndexSettings) -> None:
        """Replace what a person chose."""
        self._connection.execute("UPDATE library SET settings = ?", (settings_to_json(settings),))

    def finish(self) -> None:
        """Count the commit."""
        self._connection.execute(
            "UPDATE library SET row_count = row_count + ?, change = ?", (self._rows_added, self._change)
        )
        self._connection.execute(f"UPDATE library SET checksum = checksum({LIBRARY})")

    def _put(self, stamp: FileStamp, *content: Value) -> None:
        values = (stamp.path, stamp.size, stamp.mtime_ns, *content, self._change)
        self._connection.execute(_PUT, (*values, checksum(*values)))

    def _set_state(self, photo_id: int, expression: str) -> None:
        self._update(f"state = {expression} WHERE", (), photo_id)

    def _update(self, assignments: str, values: Sequence[Value], photo_id: int) -> None:
        """Change the entry of a photo; UnknownPhoto when there is none, or none that meets the condition."""
        statement = f"UPDATE photo SET changed = ?, {assignments} id = ?"
        if self._connection.execute(statement, (self._change, *values, photo_id)).rowcount != 1:
            raise unknown(photo_id)
        statement = f"UPDATE photo SET checksum = checksum({CONTENT}) WHERE id = ?"
        self._connection.execute(statement, (photo_id,))


def unknown(photo_id: int) -> UnknownPhoto:
    """Return the error that says that there is no such photo."""
    return UnknownPhoto(f"The index has no photo {photo_id}: search again, the library may have changed.")
