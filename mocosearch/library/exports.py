"""The vectors of a library for other programs: FAISS or NumPy, with a list that tells whose vector each is."""

import csv
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np

from mocosearch.errors import CannotExport, NoPhotos
from mocosearch_index.atomic import atomic_path, disk_errors_named
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.paths import is_reachable, shown
from mocosearch_index.records import Photo
from mocosearch_index.vector_exports import write_npy, write_plain_faiss
from mocosearch_index.vectors import Float16

ListFormat = Literal["csv", "jsonl"]
COLUMNS = ("id", "path", "width", "height", "taken_at")


def export_index(index: ImageIndex, out: Path, list_format: ListFormat, *, replace: bool) -> tuple[Path, int]:
    """Write all photos' unit vectors as a plain FAISS file whose ids are the photos', and the list beside it.

    Returns the path of the list and how many photos are in it. CannotExport when a file is in the way or `out` does not
    end in .faiss, NoPhotos, DiskFull, NotWritable.
    """
    names, photos, vectors = _begin(index, out, ".faiss", list_format, replace)
    write_plain_faiss(out, np.array([photo.id for photo in photos], np.int64), vectors)
    return names, len(photos)


def export_embeddings(index: ImageIndex, out: Path, list_format: ListFormat, *, replace: bool) -> tuple[Path, int]:
    """Write all photos' unit vectors as a float32 array (n, dim), and the list beside it in the same order.

    Returns the path of the list and how many photos are in it. CannotExport when a file is in the way or `out` does not
    end in .npy, NoPhotos, DiskFull, NotWritable.
    """
    names, photos, vectors = _begin(index, out, ".npy", list_format, replace)
    write_npy(out, vectors)
    return names, len(photos)


def _begin(
    index: ImageIndex, out: Path, suffix: str, list_format: ListFormat, replace: bool
) -> tuple[Path, list[Photo], Float16]:
    """Write the list beside `out`; return its path, the photos in it, and their vectors (n, dim)."""
    names = _list_beside(out, suffix, list_format, replace)
    photos, vectors = _all(index)
    with disk_errors_named(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    _write_list(names, list_format, photos)
    return names, photos, vectors


def _list_beside(out: Path, suffix: str, list_format: ListFormat, replace: bool) -> Path:
    if out.suffix != suffix:
        raise CannotExport(f"The name {shown(out)} does not end in {suffix}: call it {shown(Path(f'{out}{suffix}'))}.")
    names = out.with_suffix(f".{list_format}")
    for path in (out, names):
        if is_reachable(path) and not replace:
            which = "" if path == out else f", where the list for {shown(out)} goes"
            raise CannotExport(f"{shown(path)} is there already{which}: name another --out, or add --force.")
    return names


def _all(index: ImageIndex) -> tuple[list[Photo], Float16]:
    """Return the indexed photos by ascending id, and their vectors (n, dim) in the same order."""
    ids, vectors = index.all_vectors()
    rows = {int(photo_id): row for row, photo_id in enumerate(ids)}
    photos = [photo for photo in index.photos() if photo.id in rows]  # whatever is committed meanwhile
    if not photos:
        raise NoPhotos(f"The library of {shown(index.root)} holds no photos: run `mocosearch index` first.")
    return photos, vectors[[rows[photo.id] for photo in photos]]


def _write_list(path: Path, list_format: ListFormat, photos: Iterable[Photo]) -> None:
    """Write COLUMNS of each photo; `path` relative to the library's root, in the very bytes of its name.

    In JSON bytes that are not UTF-8 are escaped surrogates, from which os.fsencode makes them again.
    """
    # "surrogateescape" gives the bytes of a name back as they were.
    with (
        atomic_path(path) as partial,
        partial.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        rows = ((photo.id, os.fsdecode(photo.path), photo.width, photo.height, photo.taken_at) for photo in photos)
        if list_format == "csv":
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows)
