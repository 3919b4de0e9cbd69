"""What the page can show, as short strings that also stand behind the `#` of its address."""

import re
from dataclasses import dataclass

WALL_SEEDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Wall:
    """A shuffle of the library's photos; the same seed gives the same shuffle."""

    seed: int

    def __str__(self) -> str:
        return f"wall-{self.seed}"


@dataclass(frozen=True, slots=True)
class OfPhoto:
    """The neighbors of a photo of the library."""

    id: int

    def __str__(self) -> str:
        return f"photo-{self.id}"


@dataclass(frozen=True, slots=True)
class OfUpload:
    """The neighbors of a picture that was uploaded."""

    token: str

    def __str__(self) -> str:
        return f"upload-{self.token}"


Look = Wall | OfPhoto | OfUpload

_WALL = re.compile(r"wall-(0|[1-9][0-9]{0,5})")
_PHOTO = re.compile(r"photo-(0|[1-9][0-9]{0,17})")  # fits SQLite's 64 bits
_UPLOAD = re.compile(r"upload-([0-9a-f]{32})")


def parse(text: str) -> Look | None:
    """Read what `str(look)` wrote; None for anything else. `text` may come from anybody."""
    if match := _WALL.fullmatch(text):
        return Wall(int(match[1]))
    if match := _PHOTO.fullmatch(text):
        return OfPhoto(int(match[1]))
    if match := _UPLOAD.fullmatch(text):
        return OfUpload(match[1])
    return None
