"""Library: a folder of photos, the encoder that sees them and their ImageIndex. The one door for commands and page."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from PIL import Image

from mocosearch.errors import BadSettings, NoEncoder, NoPhotos, PhotoGone
from mocosearch.find_library import FOLDER, has_index, index_folder
from mocosearch.images.decode import TIME_CAP, DecodedImage, read_file
from mocosearch.images.decode_pool import DecodePool
from mocosearch.images.ignore import IgnoreRules
from mocosearch.images.prepared import content_hash
from mocosearch.images.walk import find_photos
from mocosearch.library import own_encoder
from mocosearch.library.own_encoder import OwnEncoder, identity_of
from mocosearch.library.queries import Crop, Example, PhotoId
from mocosearch.library.recognize import is_unchanged, path_of, photo_of
from mocosearch.library.status import LibraryStatus, library_status
from mocosearch.update.run import UpdateReport, no_photos, run_update
from mocosearch.update.work import Progress
from mocosearch.user_folders import encoder_trained_last
from mocosearch_index.catalog.file import not_an_index
from mocosearch_index.errors import EncoderMismatch, IndexExists, MocosearchError, NotWritable
from mocosearch_index.image_index import ImageIndex, is_index
from mocosearch_index.paths import is_reachable, shown
from mocosearch_index.records import CompactReport, Float32, IndexSettings, Photo, PhotoFilter, Problem

if TYPE_CHECKING:  # torch is loaded only when a picture is embedded
    from mocosearch.encoders import Encoder

__all__ = ["Hit", "Library", "LibraryStatus", "Progress", "UpdateReport"]

_ALL = PhotoFilter()
_UNCHOSEN = IndexSettings()


@dataclass(frozen=True, slots=True)
class Hit:
    """A photo that was found; `score` is the cosine, of whitened vectors where the library is searched so."""

    photo: Photo
    score: float


class Library:
    """An open library. Searching is safe from many threads."""

    def __init__(self, index: ImageIndex) -> None:
        """Use `create` or `open`."""
        self.index = index
        self._own_encoder = OwnEncoder(index)
        self._decoders = DecodePool()
        self._fresh = False  # made just now: an update that fails before anything is in it takes it back

    @classmethod
    def create(
        cls,
        root: str | Path,
        encoder: "Encoder",
        index_dir: str | Path | None = None,
        settings: IndexSettings = _UNCHOSEN,
    ) -> Self:
        """Make a library without photos in `root`/.mocosearch or in `index_dir`, with a copy of the encoder.

        IndexExists, before anything is made, when the folder is kept for something else; BadPattern, BadSettings.
        """
        root = Path(root)
        folder = root / FOLDER if index_dir is None else Path(index_dir)
        _check_place(folder, root)
        try:
            library = cls(ImageIndex.create(folder, root=root, encoder=identity_of(encoder)))
        except NotWritable as error:
            remedy = "change its permissions, or put the index elsewhere with --index-dir."
            raise NotWritable(f"Cannot write to {shown(folder)}: {remedy}") from error
        library._fresh = True
        try:
            library.keep_encoder(encoder)
            library.choose(settings)
        except BaseException:
            library._discard()
            raise
        return library

    @classmethod
    def open(cls, root: str | Path, index_dir: str | Path | None = None, writable: bool = False) -> Self:
        """Open the library of `root`, or the one whose index is in `index_dir`; NoLibrary."""
        root, index_dir = Path(root), _path(index_dir)
        index = ImageIndex.open(index_folder(root, index_dir), writable=writable)
        if index_dir is not None and index.root.resolve() != root.resolve():
            index.close()
            raise IndexExists(
                f"{shown(index_dir)} holds the index of {shown(index.root)}, not of {shown(root)}: "
                "name another --index-dir."
            )
        return cls(index)

    @classmethod
    def open_or_create(
        cls,
        root: str | Path,
        encoder: str | Path | None = None,
        index_dir: str | Path | None = None,
        load: Callable[[str | Path], "Encoder"] = own_encoder.load,
        choose: Callable[[IndexSettings], IndexSettings] = lambda settings: settings,
    ) -> tuple[Self, str]:
        """Open the library of `root` for writing or make one; also tell, in words, why it has this encoder.

        `encoder`: anything `load` takes; None: the one in the index, else the one trained last. `choose` is given the
        library's settings and returns those that it has from now on. NoPhotos, NoEncoder, EncoderMismatch, BadPattern,
        BadSettings.
        """
        root, index_dir = Path(root), _path(index_dir)
        if has_index(root, index_dir):
            return cls._reopen(root, encoder, index_dir, load, choose), "recorded in the index"
        settings = choose(IndexSettings())
        rules = IgnoreRules(settings.include, settings.exclude)
        if next(find_photos(root, rules=rules), None) is None:  # said before an encoder is asked for
            raise no_photos(root)
        if encoder is not None:
            return cls.create(root, load(encoder), index_dir, settings), "as named"
        return cls.create(root, load(encoder_trained_last()), index_dir, settings), "trained last"

    @classmethod
    def _reopen(
        cls,
        root: Path,
        encoder: str | Path | None,
        index_dir: Path | None,
        load: Callable[[str | Path], "Encoder"],
        choose: Callable[[IndexSettings], IndexSettings],
    ) -> Self:
        library = cls.open(root, index_dir, writable=True)
        try:
            if encoder is not None:
                library.keep_encoder(load(encoder))
            library.choose(choose(library.index.settings))
        except BaseException:
            library.close()
            raise
        return library

    @property
    def root(self) -> Path:
        """The folder of the photos."""
        return self.index.root

    @cached_property
    def encoder(self) -> "Encoder":
        """The library's own copy of its encoder; NoEncoder, EncoderMismatch."""
        return self._own_encoder.load()

    def keep_encoder(self, encoder: "Encoder") -> None:
        """Put a copy of the encoder into the library, unless a whole one is there; EncoderMismatch."""
        self._own_encoder.check(encoder)
        try:
            _ = self.encoder
        except (NoEncoder, EncoderMismatch):
            self._own_encoder.save(encoder)

    def reopened(self) -> Self:
        """Open this library for writing after it was closed; an encoder that was loaded need not be again.

        NotAnIndex, IndexLocked.
        """
        library = type(self)(ImageIndex.open(self.index.folder, writable=True))
        loaded: Encoder | None = vars(self).get("encoder")
        if loaded is not None and loaded.fingerprint == library.index.encoder.fingerprint:
            library.encoder = loaded
        return library

    def choose(self, settings: IndexSettings) -> None:
        """Keep what a person chose; it counts from the next update on. BadPattern, BadSettings."""
        IgnoreRules(settings.include, settings.exclude)
        dim, most = settings.search.dim, self.index.encoder.dim
        if dim is not None and not 1 <= dim <= most:
            raise BadSettings(f"Vectors of this encoder have {most} numbers: name a --dim from 1 to {most}, not {dim}.")
        if settings != self.index.settings:
            self.index.set_settings(settings)

    def _discard(self) -> None:
        """Close a library that was made just now and remove it; `create` saw to it that nothing else was there."""
        with suppress(OSError):  # what ended it is to be told, not that its disk is gone
            if self._own_encoder.folder.exists():
                shutil.rmtree(self._own_encoder.folder)
            self.index.discard()

    def close(self) -> None:
        """Close the index, and end what is being decoded."""
        self._decoders.close()
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- looking

    def search(
        self, like: Sequence[Example], unlike: Sequence[Example] = (), k: int = 10, where: PhotoFilter = _ALL
    ) -> list[Hit]:
        """Return the k photos most like the examples `like` (one at least) and unlike the others, best first.

        That is by the mean of the unit vectors of `like` less that of `unlike`, where photos are compared; nothing is
        found when they cancel out, or the encoder sees nothing in them. Photos of the library that are given by id are
        themselves left out, and load no torch. UnknownPhoto, NoEncoder, EncoderMismatch; ValueError without an example.
        """
        return self.hits(self.nearest(like, unlike, k, where))

    def nearest(
        self, like: Sequence[Example], unlike: Sequence[Example] = (), k: int = 10, where: PhotoFilter = _ALL
    ) -> list[tuple[int, float]]:
        """Return what `search` does as ids and scores, for who shows only some: reading photos takes longer."""
        wanted, unwanted = ([self._vector(example) for example in group] for group in (like, unlike))
        own = (int(example) for example in (*like, *unlike) if isinstance(example, PhotoId))
        others = replace(where, exclude=where.exclude.union(own))
        return self.index.search_by_examples(self._rows(wanted), self._rows(unwanted), k, others)

    def hits(self, found: Sequence[tuple[int, float]]) -> list[Hit]:
        """Return the photos of ids and scores that were found; without those that the library has forgotten since."""
        photos = self.index.photos_of([photo_id for photo_id, _ in found])
        return [Hit(photos[photo_id], score) for photo_id, score in found if photo_id in photos]

    def example(self, source: str | Path | bytes, crop: Crop | None = None) -> Example:
        """Return what a search by this file, or the bytes of one, or by a part of it, goes by.

        What the library holds is recognized, by path, size and time or else by its content, and not embedded again.
        NoPhotos (there is no such file), Undecodable, BadCrop.
        """
        source = Path(source) if isinstance(source, str) else source
        own = photo_of(self.index, source) if isinstance(source, Path) else None
        if own and not crop and is_unchanged(self.index, own):
            return own.id
        file = path_of(self.index, own) if own else source
        if isinstance(file, Path) and not is_reachable(file):
            raise NoPhotos(f"There is no file {shown(file)}: name the picture to search with.")
        if isinstance(file, Path) and file.is_dir():
            raise NoPhotos(f"{shown(file)} is a folder: name the picture to search with.")
        data = read_file(file) if isinstance(file, Path) else file
        if crop:
            return crop.of(self.decode(data).image)
        known = self.index.with_content(content_hash(data))
        if own and own.id in {photo.id for photo in known}:
            return own.id
        if known:
            return self._vector(known[0].id)
        return self.decode(data, self.encoder.preprocessing.resize).image

    def decode(self, source: Path | bytes, short_side: int | None = None) -> DecodedImage:
        """Decode a picture as `images.decode.decode` does, but in another process: no file takes down this one.

        Undecodable, DecodersFailed.
        """
        return self._decoders.decode(source, short_side)

    def original(self, photo_id: int) -> Path:
        """Return the absolute path of a photo's file; UnknownPhoto, PhotoGone."""
        path = path_of(self.index, self.index.photo(photo_id))
        if not path.is_file():
            raise PhotoGone(f"{shown(path)} is gone: run `mocosearch index` to bring the library up to date.")
        return path

    def status(self) -> LibraryStatus:
        """Return what the library holds, and how far its folder has gone on since; DamagedIndex."""
        return library_status(self.index)

    def _rows(self, vectors: Sequence[Float32]) -> Float32:
        return np.stack(vectors) if vectors else np.empty((0, self.index.encoder.dim), np.float32)

    def _vector(self, example: Example) -> Float32:
        if isinstance(example, Image.Image):
            return self.encoder.embed_image(example)
        return self.index.vectors([int(example)])[0] if isinstance(example, PhotoId) else example

    # ---- keeping it true

    def update(
        self,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] | None = None,
        *,
        prune: bool = False,
        time_cap: float = TIME_CAP,
    ) -> UpdateReport:
        """Bring the index up to date with the folder: embed what is new or changed, note what is gone.

        Commits every few seconds, and before it ends for `stop()` or KeyboardInterrupt. When all photos are gone,
        or very many at once, they are kept unless `prune`. `time_cap`: seconds to decode one photo. NoPhotos,
        DiskFull (all that was committed is kept). A library made just now is taken back when it fails with no photo
        in it, so that no encoder is bound to it. NotAnIndex when the drive went meanwhile.
        """
        fresh, self._fresh = self._fresh, False
        try:
            return run_update(self.index, lambda: self.encoder, progress, stop, prune=prune, time_cap=time_cap)
        except MocosearchError:
            if fresh and not self.index.counts()["indexed"]:
                self._discard()
            raise
        except FileNotFoundError as error:
            if is_index(self.index.folder):
                raise
            raise not_an_index(self.index.folder) from error

    def verify(self, repair: bool = False) -> list[Problem]:
        """Check all that is stored, the copy of the encoder too; return what is wrong, and with `repair` mend it.

        Repair is for a library that is open for writing, and does what can be done. An encoder can be mended when it
        is also the one trained last.
        """
        return [*self.index.verify(repair), *self._own_encoder.verify(repair)]

    def compact(self) -> CompactReport:
        """Forget photos that are gone, and give back the space of what is not used any more; DamagedIndex, DiskFull."""
        return self.index.compact()


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _check_place(folder: Path, root: Path) -> None:
    """Raise IndexExists when a new index in `folder` would mix with what is there: photos, a run, an encoder."""
    foreign = next((name for name in ("run.json", own_encoder.FOLDER) if (folder / name).exists()), None)
    if not is_index(folder) and (foreign or folder.resolve() == root.resolve()):
        what = f"'{foreign}', which is not of an index" if foreign else "the photos themselves"
        raise IndexExists(f"{shown(folder)} holds {what}: name a folder of its own with --index-dir.")
