"""Bringing an index up to date with its folder: embed what is new or changed, note what is gone, commit often."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mocosearch import scan
from mocosearch.errors import NoPhotos
from mocosearch.images.decode import Undecodable, decoder_capabilities
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.paths import printable, shown
from mocosearch_index.records import EmbeddedPhoto, FileStamp, SkippedPhoto

if TYPE_CHECKING:  # torch is loaded only when there is something to embed
    from mocosearch.embed import Embedding
    from mocosearch.encoders import Encoder

COMMIT_SECONDS = 5.0  # what a kill can cost


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an update is: photos `done` of `total` to embed, `skipped` of the done ones."""

    done: int
    total: int
    skipped: int


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update found and did. `kept`: photos that are gone but stay, for it looks like a lost drive."""

    found: int
    new: int
    embedded: int
    unchanged: int
    returned: int
    missing: int
    kept: int
    skipped: list[SkippedPhoto]
    unreadable: list[bytes]  # folders and files that could not be looked at; what is known below them stays
    stopped: bool


def run_update(
    index: ImageIndex,
    encoder: Callable[[], "Encoder"],
    progress: Callable[[Progress], None] | None,
    stop: Callable[[], bool] | None,
    *,
    prune: bool,
) -> UpdateReport:
    """Do one update; see `Library.update`. `encoder` is called only when there is something to embed."""
    found = scan.look(index.root)
    known = index.known()
    plan = scan.plan(found, known, decoder=decoder_capabilities(), prune=prune)
    if plan.missing or plan.returned:
        index.commit(missing=plan.missing, returned=plan.returned)
    work = _Work(index, len(plan.to_embed), progress or (lambda _: None), stop or (lambda: False))
    if plan.to_embed:
        _embed(plan.to_embed, encoder(), work)
    if not known and not work.embedded and not work.stopped:
        raise no_photos(index.root, work.skipped)
    index.save_search_file()
    return UpdateReport(
        found=len(found.files),
        new=plan.new,
        embedded=work.embedded,
        unchanged=plan.unchanged,
        returned=len(plan.returned),
        missing=len(plan.missing),
        kept=len(plan.kept),
        skipped=work.skipped,
        unreadable=found.unreadable,
        stopped=work.stopped,
    )


def no_photos(root: Path, skipped: Sequence[SkippedPhoto] = ()) -> NoPhotos:
    """Return the error that says why there is nothing to index in `root`."""
    if not skipped:
        return NoPhotos(f"There are no photos in {shown(root)}: put some there, or name another folder.")
    first = skipped[0]
    example = f"'{printable(first.stamp.path)}': {first.reason}, {first.detail}"
    return NoPhotos(
        f"None of the {len(skipped)} image files in {shown(root)} can be read ({example}): add photos that can."
    )


def _embed(stamps: list[FileStamp], encoder: "Encoder", work: "_Work") -> None:
    from mocosearch.embed import embed_photos

    root = work.index.root.absolute()
    photos = ((stamp, root / os.fsdecode(stamp.path)) for stamp in stamps)
    with closing(embed_photos(photos, encoder)) as results:
        try:
            for stamp, result in results:
                work.add(stamp, result)
                if work.stopped:
                    break
        except KeyboardInterrupt:
            work.commit()
            raise
    work.commit()


@dataclass
class _Work:
    """The results of an update on their way into the index."""

    index: ImageIndex
    total: int
    progress: Callable[[Progress], None]
    stop: Callable[[], bool]
    embedded: int = 0
    skipped: list[SkippedPhoto] = field(default_factory=list)
    stopped: bool = False
    _photos: list[EmbeddedPhoto] = field(default_factory=list)
    _skips: list[SkippedPhoto] = field(default_factory=list)
    _committed_at: float = field(default_factory=time.monotonic)

    def add(self, stamp: FileStamp, result: "Embedding | Undecodable") -> None:
        """Take one result; commit when the last commit is a while ago."""
        if isinstance(result, Undecodable):
            self._skip(stamp, result.reason, result.detail)
        elif not result.vector.any():
            self._skip(stamp, "featureless", "the encoder sees nothing in it")
        else:
            facts = result.content_hash, result.width, result.height, result.taken_at
            self._photos.append(EmbeddedPhoto(stamp, *facts, result.vector))
            self.embedded += 1
        if time.monotonic() - self._committed_at >= COMMIT_SECONDS:
            self.commit()
        self.progress(Progress(self.embedded + len(self.skipped), self.total, len(self.skipped)))
        self.stopped = self.stop()

    def _skip(self, stamp: FileStamp, reason: str, detail: str) -> None:
        skip = SkippedPhoto(stamp, reason, detail, decoder_capabilities())
        self._skips.append(skip)
        self.skipped.append(skip)

    def commit(self) -> None:
        """Make durable what has come so far."""
        if self._photos or self._skips:
            self.index.commit(self._photos, self._skips)
            self._photos, self._skips = [], []
        self._committed_at = time.monotonic()
