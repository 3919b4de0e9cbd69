"""CSV files that say what photos show: a class for each, and perhaps its part, or which two show the same.

Both begin with a line that names the columns. Paths are relative to the folder of photos, or lie in it. Bytes that are
not UTF-8 are kept, for file names may hold them.
"""

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import BadLabels
from mocosearch.evaluation.labels.labelled import LabelledPhotos, with_classes
from mocosearch.evaluation.split import held_out_of, part_named
from mocosearch.images.walk import find_photos
from mocosearch_index.paths import printable, shown

# What a column may be called, in any case.
PATH_NAMES = ("path", "file", "filename", "image", "name")
CLASS_NAMES = ("label", "class", "category", "target")
PART_NAME = "split"
_LONGEST_SHOWN = 200  # characters of a cell, or of the header, in a message


@dataclass(frozen=True, slots=True, eq=False)
class PairedPhotos:
    """n photos, and which of them belong together."""

    root: Path
    paths: list[Path]
    pairs: NDArray[np.int64]  # (m, 2), places in `paths`, the lower first; each pair once

    def selected(self, places: NDArray[np.int64]) -> "PairedPhotos":
        """Return the photos at `places`, ascending, and the pairs among them."""
        inside = self.pairs[np.isin(self.pairs, places).all(axis=1)]
        return PairedPhotos(self.root, [self.paths[place] for place in places], np.searchsorted(places, inside))


def read_labels(root: Path, csv_file: Path) -> LabelledPhotos:
    """Read the class of photos below `root`, and their part if there is a column of it: see PATH_NAMES and others.

    Photos that the file does not name are left out. Raises BadLabels, with the line, for a row that is not sound: a
    path twice, outside of `root` or of no file, no class, an unknown part; NotLabelled as `find_labelled`.
    """
    table = _Table(root, csv_file)
    path_column, class_column = table.column(PATH_NAMES), table.column(CLASS_NAMES)
    part_column = table.column((PART_NAME,)) if PART_NAME in table.names else None
    lines: dict[bytes, int] = {}
    found: list[tuple[bytes, bytes, int]] = []
    for line, row in table.rows:
        path, name = table.photo(line, row[path_column]), row[class_column].strip()
        if path in lines:
            raise table.error(line, f"names '{printable(path)}' again, as line {lines[path]} does", "keep one of them")
        if not name:
            raise table.error(line, f"gives '{printable(path)}' no class", "write one, or take the line out")
        part = part_named(row[part_column].strip()) if part_column is not None else 0
        if part is None:
            raise table.error(line, f"gives '{printable(path)}' no known part", "the parts are train, val and test")
        lines[path] = line
        found.append((path, os.fsencode(name), part))
    found.sort()  # as a walk finds them, so that the order of the lines does not matter
    held_out = held_out_of([part for _, _, part in found])
    return with_classes(root, [(path, name) for path, name, _ in found], held_out)


def read_pairs(root: Path, csv_file: Path) -> PairedPhotos:
    """Read which photos below `root` belong together: a pair a row, in two columns of paths of any names.

    Which of a pair comes first does not matter. The photos are all those below `root`, and those that are named.
    Raises BadLabels, with the line, for a row that is not sound, NoPhotos when `root` is no folder.
    """
    table = _Table(root, csv_file)
    if len(table.header) != 2:
        raise table.error(1, f"has {len(table.header)} columns", "pairs are two columns of paths")
    if all(table.is_photo(cell) for cell in table.header):
        raise table.error(1, "is a pair already", "put a line before it that names the columns")
    named = []
    for line, row in table.rows:
        pair = sorted(table.photo(line, cell) for cell in row)
        if pair[0] == pair[1]:
            raise table.error(line, f"pairs '{printable(pair[0])}' with itself", "take the line out")
        named.append(pair)
    paths = sorted({stamp.path for stamp in find_photos(root)}.union(*named))
    place = {path: number for number, path in enumerate(paths)}
    pairs = np.array([[place[path] for path in pair] for pair in named], dtype=np.int64)
    return PairedPhotos(root, [root / os.fsdecode(path) for path in paths], np.unique(pairs, axis=0))


class _Table:
    """A CSV file about the photos below a folder: `header`, and `rows` below it with the line that each ends on."""

    def __init__(self, root: Path, csv_file: Path) -> None:
        """Read the file; BadLabels when it cannot be read, is not whole, or holds no rows."""
        self._file, self._root = csv_file, root
        self._top = os.path.abspath(os.fsencode(root))  # noqa: PTH100 - bytes paths; keeps links as they are
        try:
            # -sig: spreadsheets begin their files with a byte order mark
            with csv_file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
                reader = csv.reader(file, strict=True)
                rows = [(reader.line_num, row) for row in reader if row]
        except OSError as error:
            raise BadLabels(f"{shown(csv_file)} cannot be read ({error.strerror}): name a CSV file.") from None
        except csv.Error as error:
            raise self.error(
                reader.line_num, f"is no CSV ({error})", "put what holds a comma or a quote in quotes"
            ) from None
        if len(rows) < 2:
            raise BadLabels(f"{shown(csv_file)} holds no rows: a line with the names of the columns comes first.")
        self.header, self.rows = rows[0][1], rows[1:]
        if any("\0" in cell for cell in self.header):
            raise self.error(1, "is not UTF-8 but UTF-16, as it seems", "save the file as CSV in UTF-8")
        self.names = [cell.strip().casefold() for cell in self.header]
        for line, row in self.rows:
            if len(row) != len(self.header):
                problem = f"has {len(row)} cells and the header {len(self.header)}"
                raise self.error(line, problem, "put what holds a comma in quotes")

    def column(self, names: Sequence[str]) -> int:
        """Return the column that has one of `names`, of several the one that comes first in `names`; or BadLabels."""
        for name in names:
            if self.names.count(name) > 1:
                raise self.error(1, f"names the column {name} twice", "rename all but one of them")
            if name in self.names:
                return self.names.index(name)
        found = _short(", ".join(self.names))
        problem = f"names no column {', '.join(names[:-1])} or {names[-1]}, but {found}"
        raise self.error(1, problem, "let it name the columns, with commas between them")

    def is_photo(self, given: str) -> bool:
        """Tell whether a cell names a file below the folder, or anywhere."""
        return os.path.isfile(os.path.join(self._top, os.fsencode(given)))  # noqa: PTH113, PTH118 - bytes paths

    def photo(self, line: int, given: str) -> bytes:
        """Return the path below the folder that a cell names; BadLabels when there is no such file in it."""
        shown_path = _short(given)
        path = os.path.relpath(os.path.join(self._top, os.fsencode(given)), self._top)  # noqa: PTH118 - bytes paths
        if path.startswith(b"../"):
            problem = f"names '{shown_path}', which is not in {shown(self._root)}"
            raise self.error(line, problem, "name the folder that holds all of them")
        if not self.is_photo(given):
            problem = f"names '{shown_path}', which is no file in {shown(self._root)}"
            raise self.error(line, problem, "paths are relative to that folder; correct it, or take the line out")
        return path

    def error(self, line: int, problem: str, remedy: str) -> BadLabels:
        """Make the error that names a line."""
        return BadLabels(f"Line {line} of {shown(self._file)} {problem}: {remedy}.")


def _short(given: str) -> str:
    """Return what a file says, safe to show, at most the beginning of it."""
    text = printable(os.fsencode(given))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
