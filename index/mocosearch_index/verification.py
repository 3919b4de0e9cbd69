"""Verification: everything that is stored is read and checked, and what can be mended is mended.

Mending never guesses. What is damaged is forgotten, so that the next update of the library finds the photo new, or
unread; what can be made from the rest is made anew.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mocosearch_index.catalog.catalog import Catalog
from mocosearch_index.errors import REBUILD, DamagedIndex
from mocosearch_index.open_files import CATALOG, OpenFiles, vector_path
from mocosearch_index.paths import printable, shown
from mocosearch_index.records import Problem
from mocosearch_index.vectors import VectorFile

_EMBED_AGAIN = "`mocosearch verify` drops it, and the next `mocosearch index` embeds the photo again."


REASONS = {"entry": "catalog-damaged", "vector": "vector-damaged"}  # why such a photo is skipped from then on


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is wrong, and what `mend` can do about it. `ids`: of photos."""

    problem: Problem
    kind: Literal["structure", "entry", "vector", "search file", "beyond repair"]
    ids: tuple[int, ...] = ()


def inspect(files: OpenFiles) -> list[Damage]:
    """Read and check everything; NewGeneration when the index was compacted meanwhile."""
    try:
        found = _of_catalog(files)
        if not any(damage.kind == "structure" for damage in found):
            found += _of_vectors(files, [photo_id for damage in found for photo_id in damage.ids])
    except DamagedIndex as error:
        what, _, remedy = str(error).rpartition(": ")
        return [Damage(Problem(what, remedy), "beyond repair")]
    if files.search.file_is_damaged():
        what = f"The search file {shown(files.search.path)} fails its checksum"
        found.append(Damage(Problem(what, "delete it; it is made again by itself."), "search file"))
    return found


def mend(files: OpenFiles, found: list[Damage]) -> None:
    """Do what can be done about what `inspect` found; only for the one writer."""
    files.search.remove_file()
    try:
        if any(damage.kind == "structure" for damage in found):
            files.catalog.mend_structure()
        doubtful = [damage for damage in found if damage.ids]
        if doubtful:
            with files.catalog.commit() as commit:
                for damage in doubtful:
                    commit.doubt(damage.ids, REASONS[damage.kind])
    except DamagedIndex:
        return  # the next look tells


def mend_vector_file(folder: Path) -> list[Problem]:
    """Mend what keeps the index in `folder` from being opened, as far as it can be; only for the one writer.

    Vectors that were lost are found by `inspect` then. DamagedIndex when the catalog cannot be read.
    """
    catalog = Catalog(folder / CATALOG, writable=True)
    try:
        library = catalog.library()
        path = vector_path(folder, library.generation)
        wrong = VectorFile.restore(path, library.encoder.dim, library.identity, library.row_count)
    finally:
        catalog.close()
    if wrong is None:
        return []
    remedy = "the next `mocosearch index` embeds those photos again whose vectors were lost."
    return [Problem(f"The vector file {shown(path)} {wrong}", remedy, repaired=True)]


def _of_catalog(files: OpenFiles) -> list[Damage]:
    catalog = files.catalog
    broken = catalog.broken_structure()
    found = [
        Damage(Problem(f"The catalog {shown(catalog.path)} is damaged ({text})", REBUILD), "structure")
        for text in broken
    ]
    for photo_id, path in catalog.damaged_entries(broken):
        what = f"The catalog's entry of '{printable(path)}' fails its checksum"
        found.append(Damage(Problem(what, _EMBED_AGAIN), "entry", (photo_id,)))
    return found


def _of_vectors(files: OpenFiles, doubtful: list[int]) -> list[Damage]:
    """Check the vectors of all photos but those of which the rest is damaged already."""
    rows, ids = files.catalog.rows_in_use()
    sound = ~np.isin(ids, doubtful)
    rows, ids = rows[sound], ids[sound]
    files.vectors.check_length(files.catalog.library().row_count)
    damaged = np.isin(rows, files.vectors.damaged_rows(rows))
    found = []
    for row, photo_id in zip(rows[damaged].tolist(), ids[damaged].tolist(), strict=True):
        path = printable(files.catalog.photo(photo_id).path)
        what = f"Vector {row} in {shown(files.vectors.path)}, that of '{path}', fails its checksum"
        found.append(Damage(Problem(what, _EMBED_AGAIN), "vector", (photo_id,)))
    return found
