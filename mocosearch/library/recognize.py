"""Which photos and folders of a library a path means, as a person types it."""

import os
from collections.abc import Iterator
from pathlib import Path

from mocosearch.errors import NoPhotos
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.paths import is_reachable, shown
from mocosearch_index.records import Photo, PhotoFilter


def path_of(index: ImageIndex, photo: Photo) -> Path:
    """Return the absolute path of a photo's file, whether or not it is there."""
    return index.root.absolute() / os.fsdecode(photo.path)


def photo_of(index: ImageIndex, path: Path) -> Photo | None:
    """Return the indexed photo whose file is at `path`, by whatever links; None when it is none.

    Where nothing is at a relative path it is tried as the library itself names its photos: relative to its root.
    """
    for name in _names(index, path, by_root=not is_reachable(path)):
        photo = index.photo_at(name)
        if photo is not None and photo.state == "indexed":
            return photo
    return None


def folder_of(index: ImageIndex, path: Path) -> bytes | None:
    """Return the folder that `path` means, relative to the root, None for the root itself; NoPhotos when none is in it.

    `path` may be relative to the current folder or to the root.
    """
    for name in _names(index, path, by_root=True):
        if name == b".":
            return None
        ids = index.select(PhotoFilter(folder=name))
        if ids is None or len(ids):
            return name
    raise NoPhotos(f"The library of {shown(index.root)} has no photos in a folder {shown(path)}: check its name.")


def is_unchanged(index: ImageIndex, photo: Photo) -> bool:
    """Tell whether the photo's file is still what was embedded, or cannot be looked at: its drive may be off."""
    try:
        status = path_of(index, photo).stat()
    except OSError:
        return True
    return (status.st_size, status.st_mtime_ns) == (photo.size, photo.mtime_ns)


def _names(index: ImageIndex, path: Path, *, by_root: bool) -> Iterator[bytes]:
    """Yield what the library may call `path`: through the links it is given with, and without any."""
    given, real = Path(os.path.abspath(path)), Path(os.path.realpath(path))  # noqa: PTH100 - they never raise
    for file, root in ((given, index.root.absolute()), (real, index.root.resolve())):
        if file.is_relative_to(root):
            yield os.fsencode(file.relative_to(root))
    if by_root and not path.is_absolute():
        yield os.fsencode(os.path.normpath(path))
