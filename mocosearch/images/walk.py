"""Find the photos below a folder: every file whose name says image, in one fixed order, each of them once."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from mocosearch.errors import NoPhotos
from mocosearch_index.paths import printable
from mocosearch_index.records import FileStamp

SUFFIXES = frozenset(
    b".jpg .jpeg .jpe .jfif .mpo .png .apng .webp .tif .tiff .gif .bmp .dib "
    b".avif .heic .heif .hif .jp2 .j2k .pbm .pgm .ppm".split()
)
# Folders that file servers, trash cans and archivers leave behind. Hidden ones need no naming.
JUNK_FOLDERS = frozenset(
    b"@eadir @tmp @recycle @recently-snapshot #recycle #snapshot $recycle.bin recycler lost+found __macosx".split()
) | {b"system volume information"}

_OF_AN_INDEX = ("catalog.sqlite", "vectors-*.f16")  # named here, for their own module would load faiss


def find_photos(root: Path, *, on_unreadable: Callable[[bytes, OSError], None] | None = None) -> Iterator[FileStamp]:
    """The photos below `root`, sorted by path (bytes, relative to `root`, "/" between folders).

    Symbolic links are followed; what a link shows a second time is given once, by its real path where it has
    one below `root`. Hidden and junk names are left out, folders of an index, and all that is no regular file.
    `on_unreadable(path, error)` is told of each folder or file that cannot be looked at.
    Raises NoPhotos, before the first photo, when `root` is missing, is not a folder or cannot be listed.
    """
    top = os.fsencode(os.path.abspath(root))  # noqa: PTH100 - Path.resolve() would follow the root's own link
    shown = printable(top)
    try:
        if not stat.S_ISDIR(os.stat(top).st_mode):  # noqa: PTH116 - bytes paths, which pathlib does not know
            raise NoPhotos(f"{shown} is not a folder: name the folder that holds the photos")
        first = _entries(top)
    except FileNotFoundError:
        raise NoPhotos(f"There is no folder {shown}: check the name, or connect the drive that holds it") from None
    except OSError as error:
        raise NoPhotos(f"The folder {shown} cannot be read ({error.strerror}): check its permissions") from error
    return _walk(top, first, on_unreadable or (lambda path, error: None))


def _walk(
    top: bytes, first: list["os.DirEntry[bytes]"], on_unreadable: Callable[[bytes, OSError], None]
) -> Iterator[FileStamp]:
    real_top = os.path.realpath(top)
    status = os.stat(top)  # noqa: PTH116
    visited = {(status.st_dev, status.st_ino)}
    # A stack of its own: folders can be nested deeper than Python may recurse.
    stack = first
    while stack:
        entry = stack.pop()
        path = entry.path[len(top.rstrip(b"/")) + 1 :]
        try:
            if entry.is_symlink() and _is_walked_anyway(real_top, entry):
                continue
            status = entry.stat()
            if stat.S_ISDIR(status.st_mode):
                if (status.st_dev, status.st_ino) not in visited:
                    visited.add((status.st_dev, status.st_ino))
                    stack.extend([] if _holds_an_index(entry.path) else _entries(entry.path))
            elif stat.S_ISREG(status.st_mode) and _is_photo_name(entry.name):
                yield FileStamp(path, status.st_size, status.st_mtime_ns)
        except OSError as error:
            # A dangling link, a link to itself or a file deleted this moment is simply no photo.
            if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                on_unreadable(path, error)


def _entries(folder: bytes) -> list["os.DirEntry[bytes]"]:
    """What may matter in a folder, in reverse order, so that a stack gives the full paths in byte order."""
    with os.scandir(folder) as entries:
        kept = [entry for entry in entries if _may_matter(entry)]
    # A folder's name sorts with the "/" that follows it in the paths of its photos.
    return sorted(kept, key=lambda entry: entry.name + (b"/" if _is_folder(entry) else b""), reverse=True)


def _may_matter(entry: "os.DirEntry[bytes]") -> bool:
    return _is_visible(entry.name) and (_is_folder(entry) or _is_photo_name(entry.name))


def _is_folder(entry: "os.DirEntry[bytes]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link into a place that cannot be looked at
        return False


def _is_visible(name: bytes) -> bool:
    return not name.startswith(b".") and name.lower() not in JUNK_FOLDERS


def _holds_an_index(folder: bytes) -> bool:
    """Whether the pictures in `folder` are thumbnails of ours. Beside another program's catalog are no vectors."""
    path = Path(os.fsdecode(folder))
    return all(any(path.glob(pattern)) for pattern in _OF_AN_INDEX)


def _is_photo_name(name: bytes) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES  # noqa: PTH122


def _is_walked_anyway(real_top: bytes, link: "os.DirEntry[bytes]") -> bool:
    """Whether the walk also comes to the link's target by the target's own path, which holds no links."""
    target = os.path.realpath(link.path)
    if target == real_top:
        return True
    prefix = real_top.rstrip(b"/") + b"/"
    if not target.startswith(prefix):
        return False
    names = target[len(prefix) :].split(b"/")
    return all(map(_is_visible, names)) and (link.is_dir() or _is_photo_name(names[-1]))
