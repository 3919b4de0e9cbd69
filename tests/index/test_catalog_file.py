import sqlite3
from pathlib import Path

import pytest
from generated_photos import assert_stored, batch, photo
from hypothesis import given
from hypothesis import strategies as st

from mocosearch_index.catalog import Catalog
from mocosearch_index.catalog_file import checksum, migrate
from mocosearch_index.filesystem import file_system_of, on_network_drive
from mocosearch_index.image_index import ImageIndex

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
