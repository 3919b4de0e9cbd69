import sqlite3
from pathlib import Path

import pytest
from generated_photos import ENCODER, assert_stored, batch, broken, photo
from hypothesis import given
from hypothesis import strategies as st

from mocosearch_index.catalog.catalog import Catalog
from mocosearch_index.catalog.file import checksum, errors_named, migrate
from mocosearch_index.errors import DamagedIndex, DiskFull
from mocosearch_index.filesystem import file_system_of, on_network_drive
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import IndexSettings, SearchSettings

VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=20), st.text(max_size=20))


@given(st.lists(VALUES, min_size=1, max_size=4), st.lists(VALUES, min_size=1, max_size=4))
def test_checksums_tell_values_types_and_borders_apart(first: list[object], second: list[object]) -> None:
    same = [(type(value), value) for value in first] == [(type(value), value) for value in second]
    assert (checksum(*first) == checksum(*second)) == same
    assert checksum(b"ab", b"c") != checksum(b"a", b"bc")
    assert len({checksum("1"), checksum(b"1"), checksum(1), checksum(None)}) == 4


def test_migrations_run_in_order_each_in_its_own_transaction() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)

    def first(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE photo (path)")

    def second(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO photo VALUES ('half')")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        migrate(connection, {0: first, 1: second}, target=2)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM photo").fetchone() == (0,)
    migrate(
        connection,
        {0: second, 1: lambda c: c.execute("INSERT INTO photo VALUES ('whole')") and None},
        target=2,
    )
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("SELECT path FROM photo").fetchall() == [("whole",)]


def test_a_disk_that_is_full_in_the_middle_of_a_migration_is_what_is_told() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE photo (path)")
    connection.execute("PRAGMA max_page_count = 10").fetchall()
    with pytest.raises(DiskFull), errors_named(Path("catalog.sqlite")):
        migrate(connection, {0: lambda c: c.execute("INSERT INTO photo VALUES (zeroblob(1000000))") and None}, target=1)
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)


def test_a_page_of_photos_of_one_state_is_found_without_sorting_all_that_are_left(
    folder: Path, index: ImageIndex
) -> None:
    index.commit(batch(0, 3), [broken(b"broken.jpg")])
    catalog = index._open.files.catalog
    statements: list[str] = []
    catalog._file.connection.set_trace_callback(statements.append)
    assert [photo.path for photo in catalog.photos("skipped")] == [b"broken.jpg"]
    catalog._file.connection.set_trace_callback(None)
    plan = catalog._file.connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    assert not [row for row in plan if "TEMP B-TREE" in row[3]]


SCHEMA_1 = """
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
"""


@pytest.fixture
def version_1(folder: Path) -> Path:
    """An index of five photos as version 1 of the schema held it."""
    with ImageIndex.create(folder, root=folder.parent, encoder=ENCODER) as index:
        index.commit(batch(0, 4), [broken(b"broken.jpg")])
    path = folder / "catalog.sqlite"
    new = sqlite3.connect(path)
    columns = "identity, root, encoder_fingerprint, encoder_description, dim, generation, row_count, change"
    library = new.execute(f"SELECT {columns} FROM library").fetchone()
    photos = new.execute("SELECT * FROM photo").fetchall()
    new.close()
    path.unlink()
    old = sqlite3.connect(path)
    old.executescript(SCHEMA_1)
    old.execute("PRAGMA user_version = 1")
    old.execute(f"PRAGMA application_id = {0x6D6F636F}")
    old.execute(f"INSERT INTO library VALUES (1, {', '.join('?' * 9)})", (*library, checksum(*library)))
    old.executemany(f"INSERT INTO photo VALUES ({', '.join('?' * 15)})", photos)
    old.commit()
    old.close()
    return folder


def version_of(folder: Path) -> int:
    connection = sqlite3.connect(folder / "catalog.sqlite")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


FOUR = {photo.stamp.path: 0 for photo in batch(0, 4)}


def test_a_writer_brings_an_index_of_version_1_up_to_date(version_1: Path, tmp_path: Path) -> None:
    with ImageIndex.open(version_1, writable=True) as index:
        assert index.settings == IndexSettings(SearchSettings(whiten=False))
        assert_stored(index, FOUR)
        assert index.verify() == []
        index.set_settings(IndexSettings(exclude=("*.png",)))
        index.commit([photo(b"new.jpg")])
    with ImageIndex.create(tmp_path / "new", root=tmp_path, encoder=ENCODER):
        pass

    def tables(folder: Path) -> set[tuple[str, str]]:
        with sqlite3.connect(folder / "catalog.sqlite") as connection:
            return set(connection.execute("SELECT name, sql FROM sqlite_master"))

    assert tables(version_1) == tables(tmp_path / "new")
    with ImageIndex.open(version_1) as reader:
        assert reader.settings.exclude == ("*.png",)
        assert_stored(reader, FOUR | {b"new.jpg": 0})


def test_a_reader_reads_version_1_without_changing_it_and_follows_the_writer_that_does(version_1: Path) -> None:
    with ImageIndex.open(version_1) as reader:
        assert_stored(reader, FOUR)
        assert reader.verify() == []
        assert version_of(version_1) == 1
        assert not reader.refresh()
        with ImageIndex.open(version_1, writable=True) as index:
            index.commit([photo(b"new.jpg")])
            assert reader.refresh()
            assert_stored(reader, FOUR | {b"new.jpg": 0})
            index.commit([photo(b"newer.jpg")])
            assert reader.refresh()
            assert_stored(reader, FOUR | {b"new.jpg": 0, b"newer.jpg": 0})
    assert version_of(version_1) == 2


def test_damage_to_version_1_is_still_damage_after_the_migration(version_1: Path) -> None:
    with sqlite3.connect(version_1 / "catalog.sqlite") as connection:
        connection.execute("UPDATE library SET change = 7")
    connection.close()
    for writable in (False, True, False):
        with pytest.raises(DamagedIndex, match="catalog"):
            ImageIndex.open(version_1, writable=writable)
    assert version_of(version_1) == 2


def journal_mode(folder: Path) -> str:
    connection = sqlite3.connect(folder / "catalog.sqlite")
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    connection.close()
    return str(mode)


def test_without_the_write_ahead_log_everything_works_too(folder: Path, index: ImageIndex) -> None:
    index.commit(batch(0, 3))
    assert journal_mode(folder) == "wal"
    index.close()
    catalog = Catalog(folder / "catalog.sqlite", writable=True, write_ahead=False)  # as on a network drive
    reader = ImageIndex.open(folder)
    with catalog.commit() as commit:
        commit.missing([2])
    catalog.close()
    assert journal_mode(folder) == "delete"
    assert reader.refresh()
    assert reader.counts() == {"indexed": 2, "skipped": 0, "missing": 1}
    reader.close()
    with ImageIndex.open(folder, writable=True) as again:  # back on a local disk
        again.commit([photo(b"new.jpg")])
        assert journal_mode(folder) == "wal"
        assert_stored(again, {b"0/0.jpg": 0, b"0/2.jpg": 0, b"new.jpg": 0})


MOUNTS = rb"""/dev/sda1 / ext4 rw 0 0
nas:/photos /mnt/nas nfs4 rw 0 0
me@host: /mnt/my\040host fuse.sshfs rw 0 0
/dev/sdb1 /mnt/nas/local xfs rw 0 0
tmpfs /mnt/over tmpfs rw 0 0
//server/share /mnt/over cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        (b"/home/me", "ext4"),
        (b"/", "ext4"),
        (b"/mnt/nas", "nfs4"),
        (b"/mnt/nas/2021/summer", "nfs4"),
        (b"/mnt/nasty", "ext4"),
        (b"/mnt/nas/local/x", "xfs"),
        (b"/mnt/my host/x", "fuse.sshfs"),
        (b"/mnt/over/x", "cifs"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount_on_top(folder: bytes, kind: str) -> None:
    assert file_system_of(folder, MOUNTS) == kind


def test_the_temporary_folder_of_this_test_is_not_on_a_network_drive(tmp_path: Path) -> None:
    assert not on_network_drive(tmp_path)
