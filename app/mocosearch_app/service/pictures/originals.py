"""The files of the library's photos as they are, opened to be handed out and never to be written."""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from mocosearch.errors import PhotoGone
from mocosearch.images.prepared import file_hash
from mocosearch_index.paths import shown
from mocosearch_index.records import Photo

_CHUNK = 1 << 18  # bytes
_HEAD = 16  # bytes that tell the type
_FOLDER = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)  # Linux: also a folder that may be passed but not listed
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
    """Open the file of `photo` in the library of `root`; PhotoGone."""
    path, file = _open(root, photo)
    try:
        media_type = _media_type(file.peek(_HEAD)[:_HEAD])
        size = os.fstat(file.fileno()).st_size
    except OSError as error:
        file.close()
        raise _unreadable(path, error) from error
    return Original(file, size, media_type, _disposition(path.name, inline=media_type != _UNKNOWN))


def genuine_path(root: Path, photo: Photo) -> Path:
    """Return the path of the file of `photo`, after a look whether links lead somewhere else by now; PhotoGone."""
    path, file = _open(root, photo)
    file.close()
    return path


def _open(root: Path, photo: Photo) -> tuple[Path, BufferedReader]:
    """Open a regular file.

    Libraries may be made of links. One among the photos is followed to the very content that was indexed and to no
    other: who can put links there must not see through this server what they could not read themselves.
    """
    path = root.absolute() / os.fsdecode(photo.path)
    try:
        try:
            file = open(path, "rb", opener=lambda _, flags: _open_below(root, photo.path, flags))  # noqa: SIM115
            follows_links = False
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
            follows_links = True
        try:
            is_right = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            if is_right and follows_links:
                is_right = file_hash(file) == photo.content_hash
                file.seek(0)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise _unreadable(path, error) from error
    if not is_right:
        file.close()
        raise PhotoGone(f"{shown(path)} is not the file any more that was indexed: rescan the library.")
    return path, file


def _open_below(root: Path, path: bytes, flags: int) -> int:
    """Open a file without any link on its way from `root`, so that nobody can put one there meanwhile."""
    *folders, name = path.split(b"/")
    folder = os.open(root, _FOLDER)
    try:
        for inner in folders:
            outer, folder = folder, os.open(inner, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(outer)
        # Not blocking: a pipe would wait for its writer.
        return os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)


def _unreadable(path: Path, error: OSError) -> PhotoGone:
    return PhotoGone(f"{shown(path)} cannot be read ({error.strerror}): check its drive, or rescan.")


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
