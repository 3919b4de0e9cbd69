"""Pictures to search with: photos of the library, uploads, and parts of either, with the vectors of these."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from mocosearch.errors import BadCrop, PhotoGone
from mocosearch.library import Library
from mocosearch.library.queries import Crop
from mocosearch.library.queries import Example as LibraryExample
from mocosearch_app.service.embedder import Embedder
from mocosearch_app.service.looks import WHOLE, Box, Example
from mocosearch_app.service.pictures.originals import genuine_path
from mocosearch_app.service.pictures.thumbnails import Kind, encode
from mocosearch_app.service.tiles import NothingToShow
from mocosearch_app.service.uploads import Upload, Uploads
from mocosearch_index.errors import UnknownPhoto
from mocosearch_index.records import Float32, Photo

NOT_THERE = "This photo is not in the library (any more)."
_PARTS = 256  # vectors of parts that are kept, some kilobytes each: scrolling on must not embed again
_WHOLE_AT_ONCE = 2  # pictures that are kept whole until a part is cut out: one may take 750 MB
_SHARP = 4096  # pixels of the short side of a picture, of which small parts are cut


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, the bytes of its file, or a part of it, that is searched with once and not kept."""

    file: bytes
    crop: Crop | None = None


class Examples:
    """What is searched with, as the library takes it. Safe to use from many threads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._embedder = Embedder(library)
        self._uploads = Uploads()
        self._parts: OrderedDict[tuple[bytes | str, Box], Float32] = OrderedDict()
        self._keeping = threading.Lock()
        self._cutting = threading.Semaphore(_WHOLE_AT_ONCE)

    def close(self) -> None:
        """Embed what has begun, and end the threads that do so."""
        self._embedder.close()

    def load_encoder(self) -> None:
        """Load the encoder now rather than at the first picture."""
        self._embedder.start()

    def add_upload(self, data: bytes) -> Example:
        """Embed a picture (the bytes of its file) and keep it; Undecodable when it is none that can be read, Busy."""
        self.load_encoder()
        seen = self._library.decode(data, self._short_side)  # as `index` decodes: the very photo then scores 1
        vector = self._embedder.embed(seen.image)
        return Example(self._uploads.add(Upload(data, vector, seen.width, seen.height)))

    def upload(self, token: str) -> Upload:
        """Return an upload; NothingToShow when it was never there or is forgotten."""
        upload = self._uploads.get(token)
        if upload is None:
            raise NothingToShow("This picture is no longer in memory: choose it once more.")
        return upload

    def preview(self, token: str) -> bytes:
        """Return a WebP of an upload; NothingToShow. It is made anew every time: browsers keep it."""
        return encode(self._library.decode(self.upload(token).file, Kind.THUMBNAIL.short_side).image, Kind.THUMBNAIL)

    def photo(self, photo_id: int) -> Photo:
        """Return a photo that is indexed; NothingToShow."""
        try:
            photo = self._library.index.photo(photo_id)
        except UnknownPhoto as error:
            raise NothingToShow(NOT_THERE) from error
        if photo.state != "indexed":
            raise NothingToShow(NOT_THERE)
        return photo

    def for_library(self, example: Example | Picture) -> LibraryExample:
        """Return an example as `Library.search` takes it: an id, or a vector.

        Raises Undecodable, BadCrop, NothingToShow, Busy.
        """
        if isinstance(example, Picture):
            return self._once(example)
        if isinstance(example.of, str):
            upload = self.upload(example.of)
            return upload.vector if example.box is None else self._part(example, example.of, upload.file)
        photo = self.photo(example.of)
        if example.box is None:
            return photo.id
        try:
            return self._part(example, photo.content_hash or photo.path, genuine_path(self._library.root, photo))
        except (PhotoGone, UnknownPhoto) as error:
            raise NothingToShow("This photo is gone from its folder, so no part of it can be searched with.") from error

    def _once(self, picture: Picture) -> LibraryExample:
        self.load_encoder()
        if picture.crop is None:
            found = self._library.example(picture.file)
            return self._embedder.embed(found) if isinstance(found, Image.Image) else found
        with self._cutting:
            part = self._library.example(picture.file, picture.crop)
        assert isinstance(part, Image.Image)
        return self._embedder.embed(part)

    def _part(self, example: Example, picture: bytes | str, source: Path | bytes) -> Float32:
        box, crop = example.box, example.crop
        assert box is not None
        assert crop is not None
        key = (picture, box)
        with self._keeping:
            if key in self._parts:
                self._parts.move_to_end(key)
                return self._parts[key]
        self.load_encoder()
        # Of the picture only as many pixels are kept as the encoder needs of this part.
        enough = min(self._short_side * WHOLE // min(box[2:]), _SHARP)
        try:
            part = crop.of(self._library.decode(source, enough).image)
        except BadCrop as error:
            raise NothingToShow("This part of the picture is less than a pixel: choose a larger one.") from error
        vector = self._embedder.embed(part)
        with self._keeping:
            self._parts[key] = vector
            if len(self._parts) > _PARTS:
                self._parts.popitem(last=False)
        return vector

    @property
    def _short_side(self) -> int:
        return self._library.encoder.preprocessing.resize
