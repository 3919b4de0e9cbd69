"""The files of the library's photos as they are, opened to be handed out and never to be written."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from mocosearch.errors import PhotoGone
from mocosearch_index.paths import shown
from mocosearch_index.records import Photo

_CHUNK = 1 << 18  # bytes
_HEAD = 16  # bytes that tell the type
_UNKNOWN = "application/octet-stream"
_SAVED = frozenset('"*/:<>?\\|%')  # characters that file systems or headers give a meaning


@dataclass(frozen=True, slots=True)
class Original:
    """An open file of `size` bytes. `chunks` closes it.

    `media_type` goes by the content. `disposition`: what the header Content-Disposition says, with the file's name.
    """

    file: BinaryIO
    size: int
    media_type: str
    disposition: str

    def chunks(self) -> Iterator[bytes]:
        """Yield the content, `size` bytes at most should the file grow meanwhile."""
        with self.file:
            left = self.size
            while left and (chunk := self.file.read(min(left, _CHUNK))):
                left -= len(chunk)
                yield chunk


def open_original(root: Path, photo: Photo) -> Original:
    """Open the file of `photo` in the library of `root`; PhotoGone.

    Libraries may be made of links. One among the photos is followed to the very file that was indexed and to no
    other: who can put links there must not read through this server what they could not read themselves.
    """
    path = root.absolute() / os.fsdecode(photo.path)
    real = Path(os.path.realpath(path))
    leads_elsewhere = real != Path(os.path.realpath(root), os.fsdecode(photo.path))
    try:
        file = open(real, "rb", opener=_open_carefully)  # noqa: SIM115
        try:
            status = os.fstat(file.fileno())
            is_as_indexed = (status.st_size, status.st_mtime_ns) == (photo.size, photo.mtime_ns)
            if not stat.S_ISREG(status.st_mode) or (leads_elsewhere and not is_as_indexed):
                raise PhotoGone(f"{shown(path)} is not the file any more that was indexed: rescan the library.")
            media_type = _media_type(file.peek(_HEAD)[:_HEAD])
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise PhotoGone(f"{shown(path)} cannot be read ({error.strerror}): check its drive, or rescan.") from error
    return Original(file, status.st_size, media_type, _disposition(path.name, inline=media_type != _UNKNOWN))


def _open_carefully(name: str, flags: int) -> int:
    # Not blocking: a pipe would wait for its writer. No link: nobody may put one there after it was resolved.
    return os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _media_type(head: bytes) -> str:
    """Return the type of a plain raster image that every browser shows; all else is not to be shown by one."""
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    if head.startswith(b"BM"):
        return "image/bmp"
    if head[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    return _UNKNOWN


def _disposition(name: str, *, inline: bool) -> str:
    """Return how a browser is to treat a file and what to call it when it is saved (RFC 6266, RFC 8187).

    `name` as Python spells file names; what is not UTF-8 or not printable becomes a low line.
    """
    plain = "".join(c if c.isprintable() and c not in _SAVED else "_" for c in name)
    simple = "".join(c if c.isascii() else "_" for c in plain)  # for programs that know ASCII only
    kind = "inline" if inline else "attachment"
    return f"{kind}; filename=\"{simple}\"; filename*=UTF-8''{quote(plain, safe='')}"
