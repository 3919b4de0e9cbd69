"""Libraries and search files of before whitening was the default."""

import sqlite3
import struct
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
from projected import QUERIES, uneven

from mocosearch_index.catalog.file import checksum
from mocosearch_index.catalog.schema import LIBRARY
from mocosearch_index.image_index import ImageIndex


def test_a_library_of_before_whitening_is_searched_as_it_was(folder: Path, index: ImageIndex) -> None:
    index.commit(uneven(0)[:200])
    index.close()
    for stored in (
        '{"search": {"level": null, "dim": null, "whiten": false}, "walk": {"include": [], "exclude": []}}',
        '{"search": {}, "walk": {}}',
    ):
        with closing(sqlite3.connect(folder / "catalog.sqlite", isolation_level=None)) as connection:
            connection.create_function("checksum", -1, checksum)
            connection.execute("UPDATE library SET settings = ?", (stored,))
            connection.execute(f"UPDATE library SET checksum = checksum({LIBRARY})")
        for writable in (False, True):
            with ImageIndex.open(folder, writable=writable) as opened:
                assert not opened.settings.search.whiten
                [hits] = opened.search(QUERIES[:1], 200)
                cosines = opened.vectors([photo_id for photo_id, _ in hits]) @ QUERIES[0]
                assert np.allclose([score for _, score in hits], cosines, atol=1e-3)
                assert not opened.search_report().whitened


def test_a_search_file_of_the_version_before_is_neither_believed_nor_called_damaged(
    folder: Path, index: ImageIndex
) -> None:
    index.commit(uneven(0)[:200])
    index.save_search_file()
    wanted = index.search(QUERIES, 5)
    index.close()
    [path] = folder.glob("search-*.faiss")
    whole = path.read_bytes()
    footer = bytearray(whole[-68:-4])
    struct.pack_into("<I", footer, 8, 2)
    path.write_bytes(whole[:-68] + footer + struct.pack("<I", zlib.crc32(footer)))
    with ImageIndex.open(folder) as reader:
        assert reader.verify() == []
        assert reader.search(QUERIES, 5) == wanted
    with ImageIndex.open(folder, writable=True) as writer:
        writer.save_search_file()
    assert path.read_bytes()[-68:] == whole[-68:]
