"""What an update has to do: the folder as the walk found it against what the index knows of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mocosearch.images.decode import ALWAYS_RETRY
from mocosearch.images.walk import find_photos
from mocosearch_index.records import FileStamp, KnownFile

# More photos gone at once than these two: rather a drive that is not connected than a decision.
LOSS_SHARE = 0.3
LOSS_COUNT = 100


@dataclass(frozen=True, slots=True)
class Found:
    """One walk through the folder: the files, and the paths (relative, bytes) that could not be looked at."""

    files: list[FileStamp]
    unreadable: list[bytes]


@dataclass(frozen=True, slots=True)
class Plan:
    """What has changed. `to_embed` by path; the others are ids. `kept`: gone, but left as they are."""

    to_embed: list[FileStamp]
    returned: list[int]
    missing: list[int]
    kept: list[int]
    new: int
    unchanged: int


def look(root: Path) -> Found:
    """Walk through `root`; NoPhotos when it is no folder that can be read."""
    unreadable: list[bytes] = []
    files = list(find_photos(root, on_unreadable=lambda path, error: unreadable.append(path)))
    return Found(files, unreadable)


def plan(found: Found, known: Mapping[bytes, KnownFile], *, decoder: str, prune: bool) -> Plan:
    """Compare. `decoder`: today's capabilities; `prune`: photos may be gone however many they are."""
    to_embed, returned, new, unchanged = [], [], 0, 0
    for stamp in found.files:
        before = known.get(stamp.path)
        if before is None:
            new += 1
            to_embed.append(stamp)
        elif before[:3] != stamp or _worth_another_try(before, decoder):
            to_embed.append(stamp)
        elif before.is_missing:
            returned.append(before.id)
        else:
            unchanged += 1
    gone = _gone(found, known)
    live = sum(not file.is_missing for file in known.values())
    lost = not prune and _looks_like_loss(len(gone), live, found)
    return Plan(to_embed, returned, [] if lost else gone, gone if lost else [], new, unchanged)


def _worth_another_try(file: KnownFile, decoder: str) -> bool:
    """Tell whether an unchanged file that was skipped might be read now."""
    return file.reason is not None and (file.reason in ALWAYS_RETRY or file.decoder != decoder)


def _gone(found: Found, known: Mapping[bytes, KnownFile]) -> list[int]:
    """Return the ids of files that were there and are not, except below a folder that could not be looked at."""
    there = {stamp.path for stamp in found.files}
    return [
        file.id
        for path, file in known.items()
        if not file.is_missing and path not in there and not _is_below(path, found.unreadable)
    ]


def _is_below(path: bytes, folders: Iterable[bytes]) -> bool:
    return any(path == folder or path.startswith(folder + b"/") for folder in folders)


def _looks_like_loss(gone: int, live: int, found: Found) -> bool:
    if gone and not found.files:
        return True
    return gone > LOSS_COUNT and gone > LOSS_SHARE * live
