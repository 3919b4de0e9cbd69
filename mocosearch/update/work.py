"""The files of an update on their way into the index: recognized or embedded, and committed every few seconds."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from mocosearch.errors import DecodersFailed, OutOfMemory
from mocosearch.images.decode import TIME_CAP, Undecodable
from mocosearch.update.reuse import Moved, SameContent, recognize
from mocosearch.update.scan import Found, tried_with
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, FileStamp, KnownFile, SkippedPhoto

if TYPE_CHECKING:  # torch is loaded only when there is something to embed
    from mocosearch.embed import Embedding
    from mocosearch.encoders import Encoder

COMMIT_SECONDS = 5.0  # what a kill can cost

Stage = Literal["walking", "comparing", "embedding", "saving"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an update is: photos `done` of `total` (None: nobody knows yet), `skipped` of the done ones.

    Files that may have moved are compared by content; `saving` is the search structure, which may be tuned anew.
    """

    stage: Stage
    done: int
    total: int | None
    skipped: int = 0


@dataclass
class Work:
    """What was done with the files that were read, counted; what is not committed yet."""

    index: ImageIndex
    progress: Callable[[Progress], None]
    stop: Callable[[], bool]
    time_cap: float = TIME_CAP  # seconds to decode one photo
    known: Mapping[bytes, KnownFile] = field(default_factory=dict)
    embedded: int = 0
    moved: int = 0
    copied: int = 0
    touched: int = 0
    skipped: list[SkippedPhoto] = field(default_factory=list)
    stopped: bool = False
    moved_ids: set[int] = field(default_factory=set)
    replaced_ids: set[int] = field(default_factory=set)  # gone, but their content is at the path of another photo
    _photos: list[EmbeddedPhoto] = field(default_factory=list)
    _skips: list[SkippedPhoto] = field(default_factory=list)
    _moves: list[tuple[int, FileStamp]] = field(default_factory=list)
    _committed_at: float = field(default_factory=time.monotonic)

    def reuse(self, stamps: list[FileStamp], found: Found) -> list[FileStamp]:
        """Enter the files of known content; return the others, which are to be embedded."""
        others = []
        with self._committing():
            for done, (stamp, match) in enumerate(recognize(self.index, stamps, self.known, found), 1):
                if match is None:
                    others.append(stamp)
                else:
                    self._enter(stamp, match)
                self._step(Progress("comparing", done, len(stamps)))
                if self.stopped:
                    break
        return others

    def embed(self, stamps: list[FileStamp], encoder: "Encoder") -> None:
        """Embed files and enter what comes of them; a file that vanished meanwhile is left to the next update."""
        from mocosearch.embed import embed_photos

        root = self.index.root.absolute()
        photos = ((stamp, root / os.fsdecode(stamp.path)) for stamp in stamps)
        with (
            closing(embed_photos(photos, encoder, expected=len(stamps), time_cap=self.time_cap)) as results,
            self._committing(),
        ):
            for done, (stamp, result) in enumerate(results, 1):
                self.add(stamp, result)
                self._step(Progress("embedding", done, len(stamps), len(self.skipped)))
                if self.stopped:
                    break

    def add(self, stamp: FileStamp, result: "Embedding | Undecodable") -> None:
        """Take one result of the pipeline."""
        if isinstance(result, Undecodable):
            if result.reason != "io" or os.path.lexists(self.index.root / os.fsdecode(stamp.path)):
                self._skip(stamp, result.reason, result.detail)
        elif not result.vector.any():
            self._skip(stamp, "featureless", "the encoder sees nothing in it")
        else:
            facts = result.content_hash, result.width, result.height, result.taken_at
            self._photos.append(EmbeddedPhoto(stamp, *facts, result.vector))
            self.embedded += 1

    def _enter(self, stamp: FileStamp, match: Moved | SameContent) -> None:
        photo = match.photo
        if isinstance(match, Moved):
            self._moves.append((photo.id, stamp))
            if match.is_touched:
                self.touched += 1
            else:
                self.moved += 1
                self.moved_ids.add(photo.id)
            return
        [vector] = self.index.vectors([photo.id])
        facts = cast(tuple[bytes, int, int], (photo.content_hash, photo.width, photo.height))
        self._photos.append(EmbeddedPhoto(stamp, *facts, photo.taken_at, vector))
        if match.has_left:
            self.moved += 1
            self.replaced_ids.add(photo.id)
        else:
            self.copied += 1

    def _skip(self, stamp: FileStamp, reason: str, detail: str) -> None:
        before, tried = self.known.get(stamp.path), tried_with(reason, self.time_cap)
        if before and not before.is_missing and (before.stamp, before.reason, before.decoder) == (stamp, reason, tried):
            return  # tried again, in vain: nothing new to keep or to tell
        skip = SkippedPhoto(stamp, reason, detail, tried)
        self._skips.append(skip)
        self.skipped.append(skip)

    def _step(self, progress: Progress) -> None:
        """Commit when the last commit is a while ago, tell how far it is, and ask whether to go on."""
        if time.monotonic() - self._committed_at >= COMMIT_SECONDS:
            self._commit()
        self.progress(progress)
        self.stopped = self.stop()

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """Make durable what the block has done, also when it is stopped or cannot go on."""
        self._committed_at = time.monotonic()
        try:
            yield
        except (KeyboardInterrupt, SystemExit, DecodersFailed, OutOfMemory):
            self._commit()
            raise
        self._commit()

    def _commit(self) -> None:
        if self._photos or self._skips or self._moves:
            self.index.commit(self._photos, self._skips, moved=self._moves)
            self._photos, self._skips, self._moves = [], [], []
        self._committed_at = time.monotonic()
