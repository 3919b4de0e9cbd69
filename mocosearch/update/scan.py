"""What has changed in a folder: as the walk found it against what the index knows of it."""

import gc
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mocosearch.images.decode import ALWAYS_RETRY, decoder_capabilities
from mocosearch.images.ignore import IgnoreRules
from mocosearch.images.walk import find_photos
from mocosearch_index.records import FileStamp, KnownFile

# More photos gone at once than these two: rather a drive that is not connected than a decision.
LOSS_SHARE = 0.3
LOSS_COUNT = 100
_COUNTED = 1000  # photos after which the walk says how far it is


@dataclass(frozen=True, slots=True)
class Found:
    """One walk through the folder: the files, and the paths (relative, bytes) that could not be looked at."""

    files: list[FileStamp]
    unreadable: list[bytes]


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed: files to read, in the order of the walk; ids of missing photos that are back; what is gone."""

    to_read: list[FileStamp]
    returned: list[int]
    gone: list[KnownFile]
    new: int
    unchanged: int


def look(root: Path, rules: IgnoreRules | None = None, on_count: Callable[[int], None] = lambda count: None) -> Found:
    """Walk through `root`, telling `on_count` now and then how many photos there are so far; NoPhotos, BadPattern."""
    unreadable: list[bytes] = []
    files: list[FileStamp] = []
    photos = find_photos(root, rules=rules, on_unreadable=lambda path, error: unreadable.append(path))
    while block := list(islice(photos, _COUNTED)):
        files += block
        if len(block) == _COUNTED:
            on_count(len(files))
    return Found(files, unreadable)


def compare(found: Found, known: Mapping[bytes, KnownFile], time_cap: float) -> Changes:
    """Tell what has changed. `time_cap`: seconds that decoding a photo may take today."""
    to_read, returned, new, unchanged = [], [], 0, 0
    for stamp in found.files:
        path, size, mtime_ns = stamp  # and below: all at once, for speed
        before = known.get(path)
        if before is None:
            new += 1
            to_read.append(stamp)
            continue
        _, known_size, known_mtime_ns, photo_id, is_missing, reason, _ = before
        is_same = size == known_size and mtime_ns == known_mtime_ns
        if not is_same or (reason is not None and _worth_another_try(before, time_cap)):
            to_read.append(stamp)
        elif is_missing:
            returned.append(photo_id)
        else:
            unchanged += 1
    some_are_gone = len(known) + new > len(found.files)
    return Changes(to_read, returned, _gone(found, known) if some_are_gone else [], new, unchanged)


def split_off_left_out(root: Path, gone: Iterable[KnownFile]) -> tuple[list[KnownFile], list[KnownFile]]:
    """Part what is gone from `root` from what is only left out of the walk, by a rule or a name, and still there."""
    lost: list[KnownFile] = []
    left_out: list[KnownFile] = []
    top = os.fsencode(root.absolute()) + b"/"
    for file in gone:
        (left_out if os.path.lexists(top + file.path) else lost).append(file)
    return lost, left_out


def looks_like_loss(gone: int, known: Collection[KnownFile], found: Found) -> bool:
    """Tell whether a drive is not connected, rather than so many photos deleted."""
    if gone and not found.files:
        return True
    return gone > LOSS_COUNT and gone > LOSS_SHARE * sum(not file.is_missing for file in known)


def is_below(path: bytes, folders: Iterable[bytes]) -> bool:
    """Tell whether `path` is one of `folders` or in one of them."""
    return any(path == folder or path.startswith(folder + b"/") for folder in folders)


@contextmanager
def many_records() -> Iterator[None]:
    """Let Python not look for cycles in the block, which makes a record a file: it would a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def tried_with(reason: str, time_cap: float) -> str:
    """Return with what a file was tried that was skipped for `reason`: when that changes, it is worth another try."""
    return f"{decoder_capabilities()}, {time_cap:g} seconds" if reason == "timeout" else decoder_capabilities()


def _worth_another_try(file: KnownFile, time_cap: float) -> bool:
    """Tell whether an unchanged file that was skipped might be read now."""
    return file.reason in ALWAYS_RETRY or file.decoder != tried_with(file.reason or "", time_cap)


def _gone(found: Found, known: Mapping[bytes, KnownFile]) -> list[KnownFile]:
    """Return the files that were there and are not, except below a folder that could not be looked at."""
    files = (known[path] for path in sorted(known.keys() - {stamp.path for stamp in found.files}))
    return [file for file in files if not file.is_missing and not is_below(file.path, found.unreadable)]
