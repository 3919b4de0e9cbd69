"""The copies of a library as a table for spreadsheets."""

import csv
import io
from collections.abc import Iterator

from mocosearch.duplicates.find import DuplicateReport, Group
from mocosearch.library.recognize import path_of
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import Photo

_COLUMNS = ("path", "group", "kind", "why_kept", "likeness", "turned", "bytes", "width", "height", "taken_at")


def duplicates_csv(index: ImageIndex, report: DuplicateReport) -> bytes:
    """Return a row a photo, the one to keep first in its group: UTF-8 with the mark that spreadsheets know it by.

    Paths are absolute, and exact to the byte, whatever a name holds (read them with `errors="surrogateescape"`). A cell
    that a spreadsheet would take as a formula cannot come about: an absolute path begins with none of its signs, and
    comes first, in quotes, so that a spreadsheet that parts cells by something else than commas cannot cut it up.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, quoting=csv.QUOTE_ALL)
    table.writerow(_COLUMNS)
    for number, group in enumerate(report.groups, 1):
        table.writerows(_rows(index, number, group))
    return text.getvalue().encode("utf-8-sig", "surrogateescape")


def _rows(index: ImageIndex, number: int, group: Group) -> Iterator[tuple[object, ...]]:
    def row(photo: Photo, *how: object) -> tuple[object, ...]:
        return path_of(index, photo), number, *how, photo.size, photo.width, photo.height, photo.taken_at

    yield row(group.keeper, "keep", group.why, "", "")
    for copy in group.copies:
        yield row(copy.photo, "identical" if copy.identical else "near", "", round(copy.likeness, 6), copy.turn)
