"""What a library holds, how it is searched, how far the folder has gone on since, and what it takes on the disk."""

from dataclasses import dataclass
from pathlib import Path

from mocosearch.errors import BadPattern, NoPhotos
from mocosearch.images.decode import TIME_CAP
from mocosearch.images.ignore import IgnoreRules
from mocosearch.update import scan
from mocosearch.user_folders import current_fingerprint
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EncoderIdentity, IndexSettings, Photo, SearchReport

_PARTS = (  # by the beginning of the name in the folder of the index
    ("catalog.sqlite", "catalog"),
    ("vectors-", "vectors"),
    ("search-", "search"),
    ("encoder", "encoder"),
    ("thumbnails", "thumbnails"),
)


@dataclass(frozen=True, slots=True)
class Drift:
    """What the next update will find, by names, sizes and times alone: a moved photo counts as new and as gone."""

    new: int
    changed: int  # or skipped before, and worth another try
    gone: int
    returned: int
    unreadable: int  # folders and files that cannot be looked at

    @property
    def any(self) -> bool:
        """Whether there is something to do."""
        return bool(self.new or self.changed or self.gone or self.returned)


@dataclass(frozen=True, slots=True)
class LibraryStatus:
    """What a library holds. `drift`: None when `unreachable` tells why the folder cannot be looked at."""

    root: Path
    folder: Path
    encoder: EncoderIdentity
    newer_encoder: str | None  # fingerprint of the encoder trained last, if it is another
    counts: dict[str, int]
    skip_reasons: dict[str, int]
    skipped: list[Photo]
    drift: Drift | None
    unreachable: str | None
    search: SearchReport
    settings: IndexSettings
    bytes_by_part: dict[str, int]

    @property
    def size_on_disk(self) -> int:
        """Bytes of all files in the folder of the index."""
        return sum(self.bytes_by_part.values())


def library_status(index: ImageIndex) -> LibraryStatus:
    """Look at the library and its folder; DamagedIndex."""
    drift = unreachable = None
    try:
        drift = drift_of(index)
    except (NoPhotos, BadPattern) as error:
        unreachable = str(error)
    trained_last = current_fingerprint()
    return LibraryStatus(
        root=index.root,
        folder=index.folder,
        encoder=index.encoder,
        newer_encoder=None if trained_last == index.encoder.fingerprint else trained_last,
        counts=index.counts(),
        skip_reasons=index.skip_reasons(),
        skipped=sorted(index.photos("skipped"), key=lambda photo: photo.path),
        drift=drift,
        unreachable=unreachable,
        search=index.search_report(),
        settings=index.settings,
        bytes_by_part=_bytes_by_part(index),
    )


def drift_of(index: ImageIndex) -> Drift:
    """Walk through the folder and compare; no file is read. NoPhotos when the folder is not there, BadPattern."""
    rules = IgnoreRules(index.settings.include, index.settings.exclude)
    with scan.many_records():
        found = scan.look(index.root, rules)
        changes = scan.compare(found, index.known(), TIME_CAP)
    return Drift(
        new=changes.new,
        changed=len(changes.to_read) - changes.new,
        gone=len(changes.gone),
        returned=len(changes.returned),
        unreadable=len(found.unreadable),
    )


def _bytes_by_part(index: ImageIndex) -> dict[str, int]:
    sizes = dict.fromkeys((*(part for _, part in _PARTS), "other"), 0)
    for path, size in index.file_sizes():
        part = next((part for start, part in _PARTS if path.parts[0].startswith(start)), "other")
        sizes[part] += size
    return {part: size for part, size in sizes.items() if size}
