"""What is shown, as plain records: page and HTTP interface turn them into HTML and JSON."""

from dataclasses import dataclass
from pathlib import Path

from mocosearch_app.service.looks import Example, Search, Wall
from mocosearch_index.errors import MocosearchError


class NothingToShow(MocosearchError):
    """What was asked for is not there, or not there any more."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One picture as it is shown; sizes in pixels of the upright original.

    `thumbnail` is an address on this server, None when the file is gone. `example` searches on from it. `file` and
    `taken_at` ("YYYY-MM-DDTHH:MM:SS", local time of the camera) are those of a photo of the library.
    """

    name: str
    folder: str
    width: int
    height: int
    thumbnail: str | None
    example: Example
    score: float | None = None
    file: Path | None = None
    taken_at: str | None = None

    @property
    def path(self) -> str:
        """Folder and name, printable."""
        return f"{self.folder}/{self.name}" if self.folder else self.name


@dataclass(frozen=True, slots=True)
class Found:
    """The photos most like what was asked for, best first, and how long it took to find them."""

    tiles: tuple[Tile, ...]
    milliseconds: float


@dataclass(frozen=True, slots=True)
class View:
    """A step of what a look shows: tiles, and where the next step starts, if there is one.

    Of a search also the pictures it goes by, how many neighbors it found, the lowest of their scores and the time it
    took; `photos` are those in the library, `matching` those that pass the filters but for the score.
    """

    look: Wall | Search
    root: str
    photos: int
    matching: int
    tiles: tuple[Tile, ...]
    start: int
    next_start: int | None
    like: tuple[Tile, ...] = ()
    unlike: tuple[Tile, ...] = ()
    found: int = 0
    lowest: float | None = None
    milliseconds: float | None = None


@dataclass(frozen=True, slots=True)
class Detail:
    """All that is known of one photo; `score` against what was searched with, if it was found by a search."""

    tile: Tile
    path: str  # absolute, printable
    size: int  # bytes
    taken_at: str | None  # "YYYY-MM-DDTHH:MM:SS", local time of the camera
    preview: str | None  # addresses on this server; None when the file is gone
    original: str | None
