"""Repair: what can be mended is mended, what was damaged is forgotten and comes back with the next update."""

import random
import sqlite3
import struct
from pathlib import Path

import pytest
from generated_photos import DIM, ENCODER, assert_stored, batch, broken, photo

from mocosearch_index.errors import DamagedIndex, MocosearchError
from mocosearch_index.image_index import ImageIndex

VECTORS, CATALOG = "vectors-000001.f16", "catalog.sqlite"
ROW = 2 * DIM + 4
HEADER = 64


@pytest.fixture
def stored(folder: Path) -> Path:
    """A closed index of 20 photos, one of them changed, one missing, one unreadable, with its search file."""
    with ImageIndex.create(folder, root=folder.parent, encoder=ENCODER) as index:
        index.commit(batch(0, 20), [broken(b"broken.jpg")])
        index.commit([photo(b"0/3.jpg", version=1)], missing=[5])
        index.save_search_file()
    return folder


WHOLE = {found.stamp.path: 0 for found in batch(0, 20)} | {b"0/3.jpg": 1}
del WHOLE[b"0/4.jpg"]  # the photo with id 5


def flip(path: Path, *bits: int) -> None:
    data = bytearray(path.read_bytes())
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def change_catalog(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / CATALOG)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(statement)
    connection.commit()
    connection.close()


def repair(folder: Path) -> list[tuple[str, bool]]:
    with ImageIndex.open(folder, writable=True) as index:
        problems = index.verify(repair=True)
        assert [problem.what for problem in index.verify()] == [p.what for p in problems if not p.repaired]
    return [(problem.what, problem.repaired) for problem in problems]


def update(folder: Path, versions: dict[bytes, int]) -> None:
    """Embed what a rescan of a folder that holds `versions` would embed."""
    with ImageIndex.open(folder, writable=True) as index:
        photos = [photo(path, version) for path, version in versions.items()]
        known = index.known()
        index.commit(
            [
                found
                for found in photos
                if found.stamp.path not in known
                or known[found.stamp.path].stamp != found.stamp
                or known[found.stamp.path].reason in ("vector-damaged", "catalog-damaged")
            ],
            missing=[file.id for path, file in known.items() if path not in versions and path != b"broken.jpg"],
        )


def test_a_sound_index_needs_no_repair_and_is_left_alone(stored: Path) -> None:
    before = {path.name: path.read_bytes() for path in stored.iterdir()}
    assert repair(stored) == []
    assert {path.name: path.read_bytes() for path in stored.iterdir()} == before


def test_a_damaged_vector_makes_its_photo_wait_for_the_next_update(stored: Path) -> None:
    flip(stored / VECTORS, 8 * (HEADER + 7 * ROW) + 3, 8 * (HEADER + 4 * ROW))  # the second is that of a missing photo
    with ImageIndex.open(stored) as reader:
        ids = {path: file.id for path, file in reader.known().items()}
    found = repair(stored)
    assert sorted("'0/7.jpg'" in what for what, _ in found) == [False, True]
    assert all(repaired for _, repaired in found)
    with ImageIndex.open(stored) as reader:
        assert reader.skip_reasons() == {"vector-damaged": 2, "truncated": 1}
        assert_stored(reader, {path: version for path, version in WHOLE.items() if path != b"0/7.jpg"})
    update(stored, WHOLE)
    with ImageIndex.open(stored) as reader:
        assert_stored(reader, WHOLE)
        assert {path: file.id for path, file in reader.known().items()} == ids
        assert reader.counts()["missing"] == 1
        assert reader.verify() == []


def test_a_reader_follows_a_repair(stored: Path) -> None:
    with ImageIndex.open(stored) as reader:
        assert_stored(reader, WHOLE)
        flip(stored / VECTORS, 8 * (HEADER + 7 * ROW) + 3)
        repair(stored)
        assert reader.refresh()
        assert_stored(reader, {path: version for path, version in WHOLE.items() if path != b"0/7.jpg"})


@pytest.mark.parametrize(
    "damage",
    [
        *("width = 641", "path = x'00'", "mtime_ns = 9", "taken_at = ''", "row = NULL", "row = 99"),
        *("content_hash = NULL", "path = 'text'", "path = 5", "size = 1.5", "mtime_ns = 'x'", "changed = 'x'"),
    ],
)
def test_a_damaged_entry_is_forgotten_and_the_photo_read_again(stored: Path, damage: str) -> None:
    change_catalog(stored, f"UPDATE photo SET {damage} WHERE id = 2")
    [(_, repaired)] = repair(stored)
    assert repaired
    with ImageIndex.open(stored) as reader:
        assert_stored(reader, {path: version for path, version in WHOLE.items() if path != b"0/1.jpg"})
    update(stored, WHOLE)
    with ImageIndex.open(stored) as reader:
        assert_stored(reader, WHOLE)
        assert reader.verify() == []


def test_a_value_that_the_schema_forbids_is_mended_too(stored: Path) -> None:
    change_catalog(stored, "UPDATE photo SET state = 'imdexed' WHERE id = 2")
    found = repair(stored)
    assert len(found) == 2  # SQLite names the table, and we the photo
    assert all(repaired for _, repaired in found)
    update(stored, WHOLE)
    with ImageIndex.open(stored) as reader:
        assert_stored(reader, WHOLE)


def test_indexes_of_the_catalog_that_lie_are_made_anew(stored: Path) -> None:
    connection = sqlite3.connect(stored / CATALOG)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'photo_changed'").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = bytearray((stored / CATALOG).read_bytes())
    start = (page - 1) * size
    (content,) = struct.unpack_from(">H", data, start + 5)  # where the cells of this page begin
    data[start + content + 4] ^= 2  # the first cell: payload size, header size, two types, then `changed` and the id
    (stored / CATALOG).write_bytes(data)
    with ImageIndex.open(stored) as reader:
        assert any("photo_changed" in problem.what for problem in reader.verify())
    assert all(repaired for _, repaired in repair(stored))
    with ImageIndex.open(stored) as reader:
        assert_stored(reader, WHOLE)


def test_a_damaged_search_file_is_made_anew(stored: Path) -> None:
    [path] = stored.glob("*.faiss")
    whole = path.read_bytes()
    flip(path, 777)
    [(what, repaired)] = repair(stored)
    assert ("search file" in what, repaired) == (True, True)
    assert path.read_bytes() == whole


def test_damage_of_several_kinds_is_mended_at_once(stored: Path) -> None:
    flip(stored / VECTORS, 8 * (HEADER + 7 * ROW) + 3)
    [path] = stored.glob("*.faiss")
    flip(path, 777)
    change_catalog(stored, "UPDATE photo SET width = 1 WHERE id = 2")
    found = repair(stored)
    assert len(found) == 3
    assert all(repaired for _, repaired in found)
    update(stored, WHOLE)
    with ImageIndex.open(stored) as reader:
        assert_stored(reader, WHOLE)


@pytest.mark.parametrize("length", [None, 0, 30, HEADER, HEADER + 5 * ROW + 1, HEADER + 21 * ROW - 1])
def test_a_vector_file_that_was_cut_off_or_lost_costs_only_what_is_missing(stored: Path, length: int | None) -> None:
    path = stored / VECTORS
    whole = path.read_bytes()
    path.unlink()
    if length is not None:
        path.write_bytes(whole[:length])
    with pytest.raises(DamagedIndex):
        ImageIndex.open(stored)
    [problem] = ImageIndex.mend(stored)
    assert problem.repaired
    assert ImageIndex.mend(stored) == []
    left = max(0, ((length or 0) - HEADER) // ROW)
    found = repair(stored)
    assert len(found) == 20 - left + (left > 3)  # row 3 is dead
    assert all(repaired for _, repaired in found)
    update(stored, WHOLE)
    with ImageIndex.open(stored) as reader:
        assert_stored(reader, WHOLE)
        assert reader.verify() == []


def test_a_damaged_header_of_the_vector_file_costs_nothing(stored: Path) -> None:
    path = stored / VECTORS
    whole = path.read_bytes()
    for bit in random.Random(6).sample(range(8 * HEADER), 60):
        flip(path, bit)
        with pytest.raises(MocosearchError):
            ImageIndex.open(stored)
        [problem] = ImageIndex.mend(stored)
        assert problem.repaired
        assert path.read_bytes() == whole


def test_the_vector_file_of_another_index_is_not_taken_for_a_damaged_one(stored: Path, tmp_path: Path) -> None:
    with ImageIndex.create(tmp_path / "other", root=tmp_path, encoder=ENCODER) as other:
        other.commit(batch(7, 30))
    (tmp_path / "other" / VECTORS).rename(stored / VECTORS)
    foreign = (stored / VECTORS).read_bytes()
    with pytest.raises(DamagedIndex, match="of another index"):
        ImageIndex.mend(stored)
    assert (stored / VECTORS).read_bytes() == foreign


def test_what_is_beyond_repair_is_named_with_what_to_do(stored: Path) -> None:
    connection = sqlite3.connect(stored / CATALOG)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'photo'").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = bytearray((stored / CATALOG).read_bytes())
    data[(page - 1) * size : page * size] = bytes(size)
    (stored / CATALOG).write_bytes(data)
    with ImageIndex.open(stored, writable=True) as index:
        problems = index.verify(repair=True)
    assert problems
    assert not any(problem.repaired for problem in problems)
    assert all("restore the index from a backup" in problem.remedy for problem in problems)


def test_whatever_bits_are_flipped_a_repair_leaves_an_index_that_is_sound_or_says_that_it_is_not(stored: Path) -> None:
    numbers = random.Random(8)
    whole = {path: path.read_bytes() for path in stored.iterdir() if path.name != "lock"}
    mended = 0
    for _ in range(60):
        path = numbers.choice(sorted(whole))
        flip(path, *numbers.sample(range(8 * len(whole[path])), 3))
        try:
            ImageIndex.mend(stored)
            with ImageIndex.open(stored, writable=True) as index:
                problems = index.verify(repair=True)
            if all(problem.repaired for problem in problems):
                update(stored, WHOLE)
                with ImageIndex.open(stored) as reader:
                    assert reader.verify() == []
                    assert_stored(reader, WHOLE)
                mended += bool(problems)
        except MocosearchError:
            pass
        for file in stored.iterdir():
            file.unlink()
        for file, data in whole.items():
            file.write_bytes(data)
    assert mended > 10
