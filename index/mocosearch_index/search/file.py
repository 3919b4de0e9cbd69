"""The file of a search structure: a cache that can always be made again, believed only when all of it fits.

FAISS     what faiss.write_index writes
extras    a NumPy .npz: facts (JSON), matrix and offset of a projection, rows of a compressed level
footer    magic, version, identity, generation, change, count, level, whether it learned something from the vectors,
          length of the FAISS part, crc32 of both parts; then a crc32 of these
"""

import io
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import faiss
import numpy as np
from numpy.typing import NDArray

from mocosearch_index.atomic import atomic_path
from mocosearch_index.records import SearchLevel, SearchReport, SearchSettings
from mocosearch_index.search.levels import level_of
from mocosearch_index.search.projection import Projection
from mocosearch_index.search.structure import Facts, SearchStructure

VERSION = 3  # 2: whitening made all variances equal
_MAGIC = b"mocoann\n"
_BLOCK = 1 << 20
_FOOTER = struct.Struct("<8sI16sIQQHHQI")
_FOOTER_BYTES = _FOOTER.size + 4
_LEVELS: tuple[SearchLevel, ...] = ("exact", "ivf", "compressed")


@dataclass(frozen=True, slots=True)
class Footer:
    """What a search file says about itself: the commit of which index it shows, and how it is put together."""

    identity: bytes
    generation: int
    change: int
    count: int
    level: SearchLevel
    learned: bool
    faiss_bytes: int
    crc: int

    @classmethod
    def read(cls, file: BinaryIO) -> Self | None:
        """Return the footer of `file`; None when it is not intact, or of another version."""
        fields = _footer_fields(file)
        if fields is None or fields[0] != VERSION:
            return None
        identity, generation, change, count, level, learned, faiss_bytes, crc = fields[1:]
        return cls(identity, generation, change, count, _LEVELS[level], bool(learned), faiss_bytes, crc)

    def write(self, file: BinaryIO) -> None:
        """Put the footer behind what is written."""
        numbers = self.count, _LEVELS.index(self.level), self.learned, self.faiss_bytes, self.crc
        data = _FOOTER.pack(_MAGIC, VERSION, self.identity, self.generation, self.change, *numbers)
        file.write(data + struct.pack("<I", zlib.crc32(data)))

    def is_of(self, identity: bytes, generation: int, change: int) -> bool:
        """Tell whether the file shows this commit of this index."""
        return (self.identity, self.generation, self.change) == (identity, generation, change)


def save(structure: SearchStructure, path: Path, identity: bytes, generation: int, change: int) -> None:
    """Write `structure`, which shows this commit; DiskFull."""
    crc = 0
    with atomic_path(path) as partial, partial.open("wb") as file:

        def write(data: bytes) -> int:
            nonlocal crc
            crc = zlib.crc32(data, crc)
            return file.write(data)

        faiss.write_index(structure.index, faiss.PyCallbackIOWriter(write))  # type: ignore[attr-defined]
        faiss_bytes = file.tell()
        write(_pack_extras(structure))
        kind = structure.count, structure.level, structure.learned
        Footer(identity, generation, change, *kind, faiss_bytes, crc).write(file)


def load(path: Path, dim: int, identity: bytes, generation: int, change: int) -> SearchStructure | None:
    """Read what `save` wrote; None when it is missing, damaged, or made from something else."""
    file = _open(path)
    if file is None:
        return None
    with file:  # one descriptor throughout: the file at `path` may be replaced meanwhile
        footer = Footer.read(file)
        if footer is None or not footer.is_of(identity, generation, change) or not _intact(file, footer.crc):
            return None
        extras = _extras(file, footer)
        file.seek(0)
        index = faiss.read_index(faiss.PyCallbackIOReader(file.read))  # type: ignore[attr-defined]
        structure = _unpack(index, extras)
    expected = structure.projection.dim if structure.projection else dim
    return structure if (index.d, index.ntotal) == (expected, footer.count) else None


def footer_of(path: Path) -> Footer | None:
    """Return the footer of the search file at `path`; None when there is none, or it is not intact."""
    file = _open(path)
    if file is None:
        return None
    with file:
        return Footer.read(file)


def damaged(path: Path) -> bool:
    """Tell whether the search file at `path` fails its checksums; one that is not there, or older, does not."""
    file = _open(path)
    if file is None:
        return False
    with file:
        fields = _footer_fields(file)
        return fields is None or not _intact(file, fields[-1])


def report_in(path: Path, identity: bytes, generation: int, change: int) -> SearchReport | None:
    """Return the report of the structure in the file, without making it; None where `load` would give none."""
    file = _open(path)
    if file is None:
        return None
    with file:
        footer = Footer.read(file)
        if footer is None or not footer.is_of(identity, generation, change) or not _intact(file, footer.crc):
            return None
        return SearchReport(**json.loads(_extras(file, footer)["report"].tobytes()))


def _open(path: Path) -> BinaryIO | None:
    """Return the file at `path`; None when there is none, perhaps because a writer removed it just now."""
    try:
        return path.open("rb")
    except (FileNotFoundError, PermissionError):  # what may not be read is made again, as any other
        return None


def _footer_fields(file: BinaryIO) -> tuple[Any, ...] | None:
    """Return what the footer of `file`, of any version, holds behind the magic; None when it is not intact."""
    size = file.seek(0, 2)
    if size < _FOOTER_BYTES:
        return None
    file.seek(size - _FOOTER_BYTES)
    data = file.read(_FOOTER.size)
    (own_crc,) = struct.unpack("<I", file.read(4))
    magic, *fields = _FOOTER.unpack(data)
    return tuple(fields) if (magic, own_crc) == (_MAGIC, zlib.crc32(data)) else None


def _extras(file: BinaryIO, footer: Footer) -> Mapping[str, NDArray[Any]]:
    file.seek(footer.faiss_bytes)
    extras: Mapping[str, NDArray[Any]] = np.load(io.BytesIO(file.read()), allow_pickle=False)
    return extras


def _pack_extras(structure: SearchStructure) -> bytes:
    extras = {"facts": _json(structure.facts), "report": _json(structure.report()), "rows": structure.rows}
    if structure.projection is not None:
        extras |= {"matrix": structure.projection.matrix, "offset": structure.projection.offset}
    data = io.BytesIO()
    np.savez(data, **extras)  # type: ignore[arg-type]
    return data.getvalue()


def _unpack(index: faiss.Index, extras: Mapping[str, NDArray[Any]]) -> SearchStructure:
    facts = json.loads(extras["facts"].tobytes())
    facts["settings"] = SearchSettings(**facts["settings"])
    projection = Projection(extras["matrix"], extras["offset"]) if "matrix" in extras else None
    level = level_of(index, facts["visited"])
    return SearchStructure(level, projection, Facts(**facts), extras["rows"])


def _json(record: Facts | SearchReport) -> NDArray[Any]:
    return np.frombuffer(json.dumps(asdict(record)).encode(), np.uint8)


def _intact(file: BinaryIO, crc: int) -> bool:
    """Compare what is before the footer with its checksum: FAISS itself mostly loads damaged files silently."""
    left = file.seek(0, 2) - _FOOTER_BYTES
    file.seek(0)
    found = 0
    while left > 0:
        block = file.read(min(_BLOCK, left))
        if not block:
            return False
        found, left = zlib.crc32(block, found), left - len(block)
    return found == crc
