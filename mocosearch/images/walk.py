"""Find the photos below a folder: every file whose name says image, in one fixed order, each of them once."""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path

from mocosearch.errors import NoPhotos
from mocosearch.images.ignore import IGNORE_FILE, IgnoreRules
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

_VECTORS = re.compile(rb"vectors-.*\.f16")  # spelled here, for the module that writes them would load faiss
_DOT = ord(".")
_Entry = tuple[bytes, "os.DirEntry[bytes]"]  # a name, which ends in "/" for a folder


def find_photos(
    root: Path,
    *,
    rules: IgnoreRules | None = None,
    on_unreadable: Callable[[bytes, OSError], None] | None = None,
) -> Iterator[FileStamp]:
    """The photos below `root`, sorted by path (bytes, relative to `root`, "/" between folders).

    Symbolic links are followed; what a link shows a second time is given once, by its real path where it has
    one below `root`. Left out are hidden and junk names, folders of an index, and all that is no regular file; `rules`
    and the ignore files in the folders leave out more or take in what has a name that is left out.
    `on_unreadable(path, error)` is told of each folder or file that cannot be looked at.
    Raises NoPhotos, before the first photo, when `root` is missing, is not a folder or cannot be listed; BadPattern.
    """
    top = os.fsencode(os.path.abspath(root))  # noqa: PTH100 - Path.resolve() would follow the root's own link
    shown = f"'{printable(top)}'"
    walk = _Walk(top, rules or IgnoreRules(), on_unreadable or (lambda path, error: None))
    try:
        if not stat.S_ISDIR(os.stat(top).st_mode):  # noqa: PTH116 - bytes paths, which pathlib does not know
            raise NoPhotos(f"{shown} is not a folder: name the folder that holds the photos.")
        first = walk.entries(b"")
    except FileNotFoundError:
        raise NoPhotos(f"There is no folder {shown}: check the name, or connect the drive that holds it.") from None
    except OSError as error:
        raise NoPhotos(f"The folder {shown} cannot be read ({error.strerror}): check its permissions.") from error
    return walk.photos(first)


class _Walk:
    """One walk through the folder `top`."""

    def __init__(self, top: bytes, rules: IgnoreRules, on_unreadable: Callable[[bytes, OSError], None]) -> None:
        self._top = top.rstrip(b"/") + b"/"
        self._real_top = os.path.realpath(top)
        self._rules = {b"": rules}  # in each folder
        self._on_unreadable = on_unreadable

    def photos(self, first: list[_Entry]) -> Iterator[FileStamp]:
        """Yield the photos; `first`: the entries of the top."""
        status = os.stat(self._top)  # noqa: PTH116
        visited = {(status.st_dev, status.st_ino)}
        # Both for speed: what FileStamp itself would call, and not the stat of an entry, which converts its path.
        new, look_at, is_regular, top = tuple.__new__, os.stat, stat.S_ISREG, self._top
        # A stack of its own: folders can be nested deeper than Python may recurse.
        # Of each folder whether it was entered by a link: what is in it may be shown by another link, too.
        stack = [(b"", iter(first), False)]
        while stack:
            folder, entries, is_linked = stack[-1]
            for name, entry in entries:
                path = folder + name
                try:
                    is_link = entry.is_symlink()
                    if is_link and self._is_walked_anyway(entry):
                        continue
                    status = look_at(top + path)
                    if is_regular(status.st_mode):
                        if is_link or is_linked:
                            if (status.st_dev, status.st_ino) in visited:
                                continue
                            visited.add((status.st_dev, status.st_ino))
                        yield new(FileStamp, (path, status.st_size, status.st_mtime_ns))
                    elif stat.S_ISDIR(status.st_mode) and (status.st_dev, status.st_ino) not in visited:
                        visited.add((status.st_dev, status.st_ino))
                        stack.append((path, iter(self.entries(path)), is_link or is_linked))
                        break
                except OSError as error:
                    # A dangling link, a link to itself or a file deleted this moment is simply no photo.
                    if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                        self._on_unreadable(path.rstrip(b"/"), error)
            else:
                stack.pop()

    def entries(self, folder: bytes) -> list[_Entry]:
        """Return what may matter in a folder, so sorted that the full paths come in byte order."""
        with os.scandir(self._top + folder) as entries:
            found = list(entries)
        names = {entry.name for entry in found}
        if folder and _is_of_an_index(names):
            return []
        above = self._rules[folder[: folder.rfind(b"/", 0, -1) + 1]]
        rules = self._rules[folder] = self._with_file(above, folder) if IGNORE_FILE in names else above
        kept = _usual(found) if rules.are_silent else _asked_for(found, folder, rules)
        # A folder's name sorts with the "/" that follows it in the paths of its photos.
        kept.sort(key=itemgetter(0))
        return kept

    def _with_file(self, rules: IgnoreRules, folder: bytes) -> IgnoreRules:
        path = self._top + folder + IGNORE_FILE
        if not os.path.isfile(path):  # noqa: PTH113 - bytes paths
            return rules
        with open(path, "rb") as file:  # noqa: PTH123
            return rules.with_file(folder, file.read())

    def _is_walked_anyway(self, link: "os.DirEntry[bytes]") -> bool:
        """Whether the walk also comes to the link's target by the target's own path, which holds no links."""
        target = os.path.realpath(link.path)
        if target == self._real_top:
            return True
        prefix = self._real_top.rstrip(b"/") + b"/"
        if not target.startswith(prefix):
            return False
        *folders, name = target[len(prefix) :].split(b"/")
        path, rules = b"", self._rules[b""]
        for part in folders:
            path += part + b"/"
            if not _is_taken(path, part, True, rules):
                return False
            rules = self._rules[path] = self._rules.get(path) or self._with_file(rules, path)
        is_folder = link.is_dir()
        return _is_taken(path + name + (b"/" if is_folder else b""), name, is_folder, rules)


def _usual(entries: list["os.DirEntry[bytes]"]) -> list[_Entry]:
    """Return what has a visible folder's or a photo's name. In this loop is most of the time of a walk."""
    kept: list[_Entry] = []
    for entry in entries:
        name = entry.name
        if name[0] == _DOT:
            continue
        try:
            is_folder = entry.is_dir()
        except OSError:  # as in `_is_folder`
            is_folder = False
        if is_folder:
            if name.lower() not in JUNK_FOLDERS:
                kept.append((name + b"/", entry))
        elif name[name.rfind(b".") :].lower() in SUFFIXES:
            kept.append((name, entry))
    return kept


def _asked_for(entries: list["os.DirEntry[bytes]"], folder: bytes, rules: IgnoreRules) -> list[_Entry]:
    """Return what `rules` leave of a folder and what they add."""
    named = ((entry.name + b"/" if _is_folder(entry) else entry.name, entry) for entry in entries)
    return [(name, entry) for name, entry in named if _is_taken(folder + name, entry.name, name[-1:] == b"/", rules)]


def _is_taken(path: bytes, name: bytes, is_folder: bool, rules: IgnoreRules) -> bool:
    verdict = rules.verdict(path)
    if verdict is not None:
        return verdict
    return not name.startswith(b".") and (name.lower() not in JUNK_FOLDERS if is_folder else _is_photo_name(name))


def _is_photo_name(name: bytes) -> bool:
    return name[name.rfind(b".") :].lower() in SUFFIXES


def _is_folder(entry: "os.DirEntry[bytes]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link into a place that cannot be looked at
        return False


def _is_of_an_index(names: set[bytes]) -> bool:
    """Whether pictures beside these names are thumbnails of ours. Beside another program's catalog are no vectors."""
    return b"catalog.sqlite" in names and any(_VECTORS.fullmatch(name) for name in names)
