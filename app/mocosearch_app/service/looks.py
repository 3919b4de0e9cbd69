"""What the page can show, as the texts that also stand behind the `#` of its address.

wall=7                              a shuffle of the library
like=12&like=u9f..&unlike=40        more like these, less like that one; photos by id, uploads by token
like=12@250,250,500,500             a part of a picture: left, top, width, height in per mille of its sides
...&folder=2024&from=2024-05&to=2024-06-15&min=0.8
duplicates=2, library               the other tabs
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl, urlencode

from mocosearch.library.queries import Crop, first_and_last_second

WALL_SEEDS = 1_000_000
MOST_EXAMPLES = 8  # of each kind
WHOLE = 1000  # the side of a picture, per mille
_MOST_FIELDS = 2 * MOST_EXAMPLES + 5

Box = tuple[int, int, int, int]

_SEED = re.compile(r"0|[1-9][0-9]{0,5}")
_PAGE = re.compile(r"|[1-9][0-9]{0,5}")
_EXAMPLE = re.compile(
    r"(?:(?P<id>0|[1-9][0-9]{0,17})|u(?P<token>[0-9a-f]{32}))(?:@(?P<box>[0-9]{1,4}(?:,[0-9]{1,4}){3}))?"
)
_SCORE = re.compile(r"-?[01](?:\.[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class Example:
    """A picture to search with: a photo by its id, or an upload by its token; all of it, or a box of it."""

    of: int | str
    box: Box | None = None  # left, top, width, height in per mille of the upright picture's sides

    def __str__(self) -> str:
        name = f"u{self.of}" if isinstance(self.of, str) else str(self.of)
        return name if self.box is None else f"{name}@{','.join(map(str, self.box))}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` wrote; ValueError."""
        match = _EXAMPLE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} names no picture")
        return cls(match["token"] or int(match["id"]), None if match["box"] is None else _box(match["box"]))

    @property
    def crop(self) -> Crop | None:
        """The box as a part to cut out."""
        if self.box is None:
            return None
        left, top, width, height = ((number / 10, True) for number in self.box)
        return Crop(left, top, width, height)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which photos are shown; what is None does not matter."""

    folder: str | None = None  # by the name that a person sees, which the library looks up
    since: str | None = None  # a year, month or day, as 2024, 2024-05 or 2024-05-31
    until: str | None = None
    min_score: float | None = None

    def fields(self) -> Iterator[tuple[str, str]]:
        """Yield the parts of an address."""
        if self.folder is not None:
            yield "folder", self.folder
        if self.since is not None:
            yield "from", self.since
        if self.until is not None:
            yield "to", self.until
        if self.min_score is not None:
            yield "min", f"{self.min_score:g}"

    @classmethod
    def parse(cls, fields: dict[str, str]) -> Self:
        """Read what `fields` gave; ValueError."""
        for name in fields.keys() & {"from", "to"}:
            first_and_last_second(fields[name])
        score = fields.get("min")
        if score is not None and not _SCORE.fullmatch(score):
            raise ValueError(f"{score!r} is no score")
        return cls(fields.get("folder"), fields.get("from"), fields.get("to"), None if score is None else float(score))


_ALL = Filters()


@dataclass(frozen=True, slots=True)
class Wall:
    """A shuffle of the library's photos; the same seed gives the same shuffle."""

    seed: int
    filters: Filters = _ALL

    def __str__(self) -> str:
        return urlencode([("wall", self.seed), *self.filters.fields()])


@dataclass(frozen=True, slots=True)
class Search:
    """The photos most like some examples and unlike others."""

    like: tuple[Example, ...]
    unlike: tuple[Example, ...] = ()
    filters: Filters = _ALL

    def __str__(self) -> str:
        examples = [("like", example) for example in self.like] + [("unlike", example) for example in self.unlike]
        return urlencode([*examples, *self.filters.fields()], safe="@,")


@dataclass(frozen=True, slots=True)
class Duplicates:
    """A page of the groups of copies that were found; pages count from 1."""

    page: int = 1

    def __str__(self) -> str:
        return "duplicates" if self.page == 1 else f"duplicates={self.page}"


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """What the library holds and how well it is."""

    def __str__(self) -> str:
        return "library"


Look = Wall | Search | Duplicates | LibraryFacts


def parse(text: str) -> Look | None:
    """Read what `str(look)` wrote; None for anything else. `text` may come from anybody."""
    try:
        return _parse(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"))
    except ValueError:
        return None


def _parse(pairs: list[tuple[str, str]]) -> Look:
    like = tuple(Example.parse(value) for name, value in pairs if name == "like")
    unlike = tuple(Example.parse(value) for name, value in pairs if name == "unlike")
    others = [(name, value) for name, value in pairs if name not in ("like", "unlike")]
    fields = dict(others)
    names = fields.keys() - {"folder", "from", "to", "min"}
    if len(fields) != len(others) or max(len(like), len(unlike)) > MOST_EXAMPLES:
        raise ValueError("a part is there twice, or too often")
    if like and not names:
        return Search(like, unlike, Filters.parse(fields))
    if like or unlike:
        raise ValueError("no search goes by that")
    if names == {"wall"} and _SEED.fullmatch(fields["wall"]):
        return Wall(int(fields["wall"]), Filters.parse(fields))
    if fields.keys() == {"duplicates"} and _PAGE.fullmatch(fields["duplicates"]):
        return Duplicates(int(fields["duplicates"] or 1))
    if fields == {"library": ""}:
        return LibraryFacts()
    raise ValueError("there is no such look")


def _box(text: str) -> Box:
    left, top, width, height = map(int, text.split(","))
    if not (0 < width <= WHOLE - left and 0 < height <= WHOLE - top):
        raise ValueError("the part reaches beyond the picture")
    return left, top, width, height
