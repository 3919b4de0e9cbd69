"""Damage is found: by `verify` every flipped bit of live data, by opening and searching what they touch."""

import random
import sqlite3
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generated_photos import DIM, ENCODER, assert_stored, batch, broken, photo, vector

from mocosearch_index.catalog.schema import CONTENT, VERSION
from mocosearch_index.errors import DamagedIndex, MocosearchError, NewerFormat
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import IndexSettings, PhotoFilter

VECTORS, SEARCH, CATALOG = "vectors-000001.f16", "search-000001.faiss", "catalog.sqlite"
ROW = 2 * DIM + 4
HEADER = 64


@pytest.fixture
def stored(folder: Path) -> Path:
    """A closed index of 20 photos, one of them changed, one missing, one unreadable, with its search file."""
    with ImageIndex.create(folder, root=folder.parent, encoder=ENCODER) as index:
        index.commit(batch(0, 20), [broken(b"broken.jpg")])
        index.commit([replace(photo(b"0/3.jpg", version=1), taken_at="2021-02-03T04:05:06")], missing=[5])
        index.set_settings(IndexSettings(exclude=("private/",)))
        index.save_search_file()
    return folder


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def problems(folder: Path) -> list[str]:
    """Return what opening and verifying say about the index."""
    try:
        with ImageIndex.open(folder) as index:
            return [problem.what for problem in index.verify()]
    except MocosearchError as error:
        return [str(error)]


def test_nothing_is_wrong_with_a_sound_index(stored: Path) -> None:
    assert problems(stored) == []


def test_every_flipped_bit_in_a_live_vector_or_the_header_is_found(stored: Path) -> None:
    path = stored / VECTORS
    whole = path.read_bytes()
    dead = range(HEADER + 3 * ROW, HEADER + 4 * ROW)  # the first version of 0/3.jpg
    bits = [bit for bit in range(8 * len(whole)) if bit // 8 not in dead]
    for bit in [*range(8 * HEADER), *random.Random(3).sample(bits, 300)]:
        flip(path, bit)
        assert len(problems(stored)) == 1, bit
        path.write_bytes(whole)


def test_a_row_in_the_place_of_another_is_found(stored: Path) -> None:
    path = stored / VECTORS
    data = bytearray(path.read_bytes())
    first, second = slice(HEADER, HEADER + ROW), slice(HEADER + ROW, HEADER + 2 * ROW)
    data[first], data[second] = data[second], data[first]
    path.write_bytes(data)
    assert len(problems(stored)) == 2


def test_a_hole_in_the_vector_file_is_found(stored: Path) -> None:
    path = stored / VECTORS
    data = bytearray(path.read_bytes())
    data[HEADER : HEADER + 2 * ROW] = bytes(2 * ROW)
    path.write_bytes(data)
    assert len(problems(stored)) == 2


def test_every_flipped_bit_in_the_search_file_is_found_and_harmless(stored: Path) -> None:
    path = stored / SEARCH
    whole = path.read_bytes()
    versions = {photo.stamp.path: 0 for photo in batch(0, 20)} | {b"0/3.jpg": 1}
    del versions[b"0/4.jpg"]  # the photo with id 5
    last = 8 * len(whole)
    for bit in [*range(last - 8 * 53, last, 3), *random.Random(4).sample(range(last), 100)]:
        flip(path, bit)
        assert problems(stored) == [f"The search file '{path}' fails its checksum"]
        with ImageIndex.open(stored) as index:
            assert_stored(index, versions)
        path.write_bytes(whole)


def test_every_flipped_bit_in_a_stored_value_of_the_catalog_is_found(stored: Path) -> None:
    path = stored / CATALOG
    whole = path.read_bytes()
    values = [
        b"0123456789abcdef",
        b"a network made of dice",
        b"0/7.jpg",
        b"1 of 0/3.jpg",
        b"truncated",
        b"decoder 1",
        b"2021-02-03T04:05:06",
        b"private/",
    ]
    for value in values:
        found = [place for place in range(len(whole)) if whole.startswith(value, place)]
        assert found
        for place in found:
            for bit in range(8 * place, 8 * (place + len(value)), 5):
                flip(path, bit)
                assert problems(stored), (value, bit)
                path.write_bytes(whole)


def all_that_is_read(index: ImageIndex) -> tuple[object, ...]:
    photos = list(index.photos())
    by_content = [index.with_content(found.content_hash) for found in photos if found.content_hash]
    selected = [
        index.select(where).tolist()
        for where in (PhotoFilter(folder=b"0"), PhotoFilter(taken_from="2"), PhotoFilter(exclude=frozenset([3])))
    ]
    stored = [values.tolist() for values in index.all_vectors()]
    counts = index.counts(), index.skip_reasons(), index.sizes(), index.change
    return photos, index.known(), by_content, selected, stored, counts, index.encoder, index.settings, index.root


def test_any_flipped_bit_in_the_catalog_is_found_or_changes_nothing(stored: Path) -> None:
    path = stored / CATALOG
    whole = path.read_bytes()
    with ImageIndex.open(stored) as index:
        before = all_that_is_read(index)
    found = 0
    for bit in random.Random(5).sample(range(8 * len(whole)), 400):
        flip(path, bit)
        if problems(stored):
            found += 1
        else:
            with ImageIndex.open(stored) as index:
                assert all_that_is_read(index) == before
        path.write_bytes(whole)
        for end in ("-wal", "-shm", "-journal"):
            Path(f"{path}{end}").unlink(missing_ok=True)
    assert found > 20


@pytest.mark.parametrize("damage", ["path = CAST(path AS TEXT)", "path = 5", "width = 'x'", "taken_at = x'00'"])
def test_a_damaged_entry_is_never_given_away_as_a_photo(stored: Path, damage: str) -> None:
    connection = sqlite3.connect(stored / CATALOG)
    connection.execute(f"UPDATE photo SET {damage} WHERE id = 7")
    connection.commit()
    connection.close()
    with ImageIndex.open(stored) as index:
        with pytest.raises(DamagedIndex, match=r"photo 7 .* run `mocosearch verify`"):
            index.photo(7)
        with pytest.raises(DamagedIndex, match="mocosearch verify"):
            list(index.photos())
        if "path" in damage:
            with pytest.raises(DamagedIndex, match="mocosearch verify"):
                index.known()


def test_a_changed_number_in_the_catalog_is_found(stored: Path) -> None:
    path = stored / CATALOG
    whole = path.read_bytes()
    for change in ("width = 641", "row = 1 - row WHERE row IN (0, 1)", "mtime_ns = 9", "taken_at = ''"):
        with sqlite3.connect(path) as connection:
            row_swap = "WHERE" in change
            if row_swap:
                connection.execute("UPDATE photo SET row = -2 WHERE row = 0")
                connection.execute("UPDATE photo SET row = 0 WHERE row = 1")
                connection.execute("UPDATE photo SET row = 1 WHERE row = -2")
            else:
                connection.execute(f"UPDATE photo SET {change} WHERE id = 2")
        connection.close()
        assert len(problems(stored)) == (2 if row_swap else 1), change
        path.write_bytes(whole)


@pytest.mark.parametrize("row", [-1, 21, 1 << 40])
def test_an_entry_whose_row_is_not_among_the_vectors_is_found_though_its_checksum_is_right(
    folder: Path, row: int
) -> None:
    with ImageIndex.create(folder, root=folder.parent, encoder=ENCODER) as index:
        index.commit(batch(0, 21))
        index._open.files.catalog._file.connection.execute("PRAGMA ignore_check_constraints = ON")
        index._open.files.catalog._file.connection.execute("UPDATE photo SET row = ? WHERE id = 2", (row,))
        statement = f"UPDATE photo SET checksum = checksum({CONTENT}) WHERE id = 2"
        index._open.files.catalog._file.connection.execute(statement)
        assert "'0/1.jpg'" in index.verify()[0].what


@pytest.mark.parametrize("column", ["change = 9", "row_count = 3", "dim = 23", "root = x'00'", "generation = 2"])
def test_a_changed_number_about_the_whole_is_found_on_opening(stored: Path, column: str) -> None:
    with sqlite3.connect(stored / CATALOG) as connection:
        connection.execute(f"UPDATE library SET {column}")
    connection.close()
    with pytest.raises(DamagedIndex, match="catalog"):
        ImageIndex.open(stored)


def test_a_catalog_that_is_garbage_or_cut_off_is_named_damaged(stored: Path) -> None:
    path = stored / CATALOG
    whole = path.read_bytes()
    path.write_bytes(b"garbage " * 5000)
    with pytest.raises(DamagedIndex, match="restore the index from a backup"):
        ImageIndex.open(stored)
    path.write_bytes(whole[: len(whole) // 2])
    assert problems(stored)


def test_searching_over_a_damaged_vector_says_so(stored: Path) -> None:
    (stored / SEARCH).unlink()
    flip(stored / VECTORS, 8 * (HEADER + 7 * ROW))
    with ImageIndex.open(stored) as index:
        with pytest.raises(DamagedIndex, match="Vector 7"):
            index.search(vector(b"x")[None], 1)
        with pytest.raises(DamagedIndex, match="Vector 7"):
            index.vectors([8])
        with pytest.raises(DamagedIndex, match="Vector 7"):
            index.all_vectors()
        assert index.vectors([1]).shape == (1, DIM)


def test_a_missing_or_foreign_search_file_is_made_again(stored: Path, tmp_path: Path) -> None:
    with ImageIndex.create(tmp_path / "other", root=tmp_path, encoder=ENCODER) as other:
        other.commit(batch(7, 3))
        other.commit(batch(8, 3))
        other.save_search_file()
    (tmp_path / "other" / SEARCH).rename(stored / SEARCH)
    with ImageIndex.open(stored) as index:
        [[(nearest, _)]] = index.search(vector(b"0/9.jpg")[None], 1)
        assert index.photo(nearest).path == b"0/9.jpg"


def test_the_vector_file_of_another_index_is_refused(stored: Path, tmp_path: Path) -> None:
    with ImageIndex.create(tmp_path / "other", root=tmp_path, encoder=ENCODER) as other:
        other.commit(batch(7, 30))
    (tmp_path / "other" / VECTORS).rename(stored / VECTORS)
    with pytest.raises(DamagedIndex, match="of another index"):
        ImageIndex.open(stored)


def test_files_of_a_newer_version_are_refused(stored: Path) -> None:
    data = bytearray((stored / VECTORS).read_bytes())
    data[8] += 1
    (stored / VECTORS).write_bytes(data)
    with pytest.raises(NewerFormat, match="update mocosearch"):
        ImageIndex.open(stored)
    connection = sqlite3.connect(stored / CATALOG)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    for writable in (False, True):
        with pytest.raises(NewerFormat, match="update mocosearch"):
            ImageIndex.open(stored, writable=writable)


def test_the_vector_file_is_as_the_page_about_formats_says(stored: Path) -> None:
    data = (stored / VECTORS).read_bytes()
    magic, version, dim, identity, crc = struct.unpack_from("<8sII16sI", data)
    assert (magic, version, dim, crc) == (b"mocovec\n", 1, DIM, zlib.crc32(data[:32]))
    assert data[36:64] == bytes(28)
    row = data[64 + 9 * (2 * DIM + 4) :][: 2 * DIM + 4]
    assert np.allclose(np.frombuffer(row[:-4], "<f2"), vector(b"0/9.jpg"), atol=1e-3)
    assert struct.unpack("<I", row[-4:]) == (zlib.crc32(row[:-4], 9),)
    footer = (stored / SEARCH).read_bytes()[-68:]
    assert struct.unpack("<8sI16sIQQHHQII", footer)[:8] == (b"mocoann\n", 3, identity, 1, 3, 19, 0, 0)


def test_the_search_file_is_one_that_plain_faiss_reads(stored: Path) -> None:
    import faiss

    index = faiss.read_index(str(stored / SEARCH))
    scores, ids = index.search(vector(b"0/9.jpg")[None], 1)
    assert ids.tolist() == [[10]]
    assert np.allclose(scores, 1, atol=2e-3)
