"""Bringing an index up to date with its folder: reuse or embed what is new or changed, note what is gone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mocosearch.errors import NoPhotos
from mocosearch.images.decode import TIME_CAP
from mocosearch.images.ignore import IgnoreRules
from mocosearch.update import scan
from mocosearch.update.scan import Found
from mocosearch.update.work import Progress, Work
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.paths import printable, shown
from mocosearch_index.records import KnownFile, SkippedPhoto

if TYPE_CHECKING:  # torch is loaded only when there is something to embed
    from mocosearch.encoders import Encoder


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update found and did. `kept`: photos that are gone but stay, for it looks like a lost drive."""

    found: int
    new: int
    embedded: int
    moved: int  # photos at another path, their vectors kept
    copied: int  # other files with the content of a photo, whose vector they share
    unchanged: int
    returned: int
    missing: int
    left_out: int  # of `missing`: their files are there, but rules leave them out
    kept: int
    skipped: list[SkippedPhoto]
    unreadable: list[bytes]  # folders and files that could not be looked at; what is known below them stays
    stopped: bool

    @property
    def has_news(self) -> bool:
        """Whether the library holds other photos than before, or a file was tried in vain."""
        return bool(self.embedded or self.moved or self.copied or self.returned or self.missing or self.skipped)


def run_update(
    index: ImageIndex,
    encoder: Callable[[], "Encoder"],
    progress: Callable[[Progress], None] | None,
    stop: Callable[[], bool] | None,
    *,
    prune: bool,
    time_cap: float = TIME_CAP,
) -> UpdateReport:
    """Do one update; see `Library.update`. `encoder` is called only when there is something to embed."""
    progress = progress or (lambda _: None)
    rules = IgnoreRules(index.settings.include, index.settings.exclude)
    with scan.many_records():
        found = scan.look(index.root, rules, lambda count: progress(Progress("walking", count, None)))
        known = index.known()
        changes = scan.compare(found, known, time_cap)
    work = Work(index, progress, stop or (lambda: False), time_cap, known)
    to_embed = changes.to_read
    if known and to_embed:
        to_embed = work.reuse(to_embed, found)
    losses = _Losses([], 0, 0) if work.stopped else _losses(index, changes.gone, known, found, work, prune=prune)
    if losses.missing or changes.returned:
        index.commit(missing=losses.missing, returned=changes.returned)
    if to_embed and not work.stopped:
        work.embed(to_embed, encoder())
    if not known and not work.embedded and not work.stopped:
        raise no_photos(index.root, work.skipped)
    back = set(changes.returned)  # files that cannot be read come back, too
    progress(Progress("saving", 0, None))
    index.save_search_file()
    return UpdateReport(
        found=len(found.files),
        new=changes.new,
        embedded=work.embedded,
        moved=work.moved,
        copied=work.copied,
        unchanged=changes.unchanged + work.touched,
        returned=sum(file.reason is None for file in known.values() if file.id in back) if back else 0,
        missing=len(losses.missing),
        left_out=losses.left_out,
        kept=losses.kept,
        skipped=work.skipped,
        unreadable=found.unreadable,
        stopped=work.stopped,
    )


@dataclass(frozen=True, slots=True)
class _Losses:
    missing: list[int]
    left_out: int
    kept: int


def _losses(
    index: ImageIndex, gone: list[KnownFile], known: Mapping[bytes, KnownFile], found: Found, work: Work, *, prune: bool
) -> _Losses:
    """Tell which of the photos that are not found any more are missing from now on. Moved ones were not lost."""
    gone = [file for file in gone if file.id not in work.moved_ids]
    lost, left_out = scan.split_off_left_out(index.root, gone)
    deleted = [file.id for file in lost if file.id not in work.replaced_ids]
    kept = [] if prune or not scan.looks_like_loss(len(deleted), known.values(), found) else deleted
    missing = {file.id for file in gone}.difference(kept)
    return _Losses(sorted(missing), len(left_out), len(kept))


def no_photos(root: Path, skipped: Sequence[SkippedPhoto] = ()) -> NoPhotos:
    """Return the error that says why there is nothing to index in `root`."""
    if not skipped:
        return NoPhotos(f"There are no photos in {shown(root)}: put some there, or name another folder.")
    first = skipped[0]
    example = f"'{printable(first.stamp.path)}': {first.reason}, {first.detail}"
    return NoPhotos(
        f"None of the {len(skipped)} image files in {shown(root)} can be read ({example}): add photos that can."
    )
