"""Where the index of a folder is, and which library is meant when none is named."""

from pathlib import Path

from mocosearch import user_folders
from mocosearch.errors import NoLibrary
from mocosearch_index.image_index import is_index
from mocosearch_index.paths import is_reachable, shown

FOLDER = ".mocosearch"
_WHY = {  # why a library is meant: whether no folder was named, and whether it is the library's own
    (False, True): "as named",
    (False, False): "of a folder above the one named",
    (True, True): "of the current folder",
    (True, False): "of a folder above the current one",
}


def index_folder(root: Path, index_dir: Path | None = None) -> Path:
    """Return the folder of the index of `root` (which may be that folder itself); NoLibrary."""
    if index_dir is not None:
        if not is_index(index_dir):
            raise NoLibrary(f"There is no index in {shown(index_dir)}: check --index-dir, or run `mocosearch index`.")
        return index_dir
    found = _index_folder(root)
    if found is None and not is_reachable(root):
        raise NoLibrary(f"There is no folder {shown(root)}: check the name, or connect the drive that holds it.")
    if found is None:
        raise NoLibrary(f"{shown(root)} has no index: run `mocosearch index` on it first, or name another folder.")
    return found


def has_index(root: Path, index_dir: Path | None = None) -> bool:
    """Tell whether `index_folder` finds one."""
    return _index_folder(root) is not None if index_dir is None else is_index(index_dir)


def library_in_use(named: Path | None = None) -> tuple[Path, str]:
    """Return the index folder of the library that is meant, and why it is this one, in words; NoLibrary.

    A folder in a library means that library. Without a name: that of the current folder, else the one indexed last.
    """
    here = Path.cwd() if named is None else named.absolute()
    for folder in (here, *(here.parents if is_reachable(here) else ())):
        found = _index_folder(folder)
        if found is not None:
            return found, _WHY[named is None, folder == here]
    if named is not None:
        return index_folder(named), "as named"
    last = user_folders.last_library()
    if last is None:
        raise NoLibrary("No library here, and none was indexed before: run `mocosearch index DIR`, or name a folder.")
    found = _index_folder(last)
    if found is None:
        raise NoLibrary(f"The library indexed last, {shown(last)}, is gone: connect its drive, or name another.")
    return found, "indexed last"


def remember_library(root: Path, folder: Path) -> None:
    """Make the library of `root` whose index is in `folder` the one that is meant from now on; NotWritable."""
    inside = folder.resolve() == (root / FOLDER).resolve()
    user_folders.set_last_library(root)
    user_folders.remember_index_folder(root, None if inside else folder)


def _index_folder(root: Path) -> Path | None:
    elsewhere = user_folders.index_folder_of(root)  # where it was put last goes before where it once was
    places = (*([] if elsewhere is None else [elsewhere]), root / FOLDER, root)
    return next((place for place in places if is_index(place)), None)
