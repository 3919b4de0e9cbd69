"""Pictures to search with: photos of the library, uploads, and parts of either, with the vectors of these."""

import threading
from collections import OrderedDict
from pathlib import Path

from mocosearch.errors import PhotoGone
from mocosearch.library import Library
from mocosearch.library.queries import Example as LibraryExample
from mocosearch_app.service.looks import Example
from mocosearch_app.service.thumbnails import Kind, encode
from mocosearch_app.service.tiles import NothingToShow
from mocosearch_app.service.uploads import Upload, Uploads
from mocosearch_index.errors import UnknownPhoto
from mocosearch_index.records import Float32, Photo

_PARTS = 256  # vectors of parts that are kept, some kilobytes each: scrolling on must not embed again
_NOT_THERE = "This photo is not in the library (any more)."


class Examples:
    """What looks call examples, as the library takes them. Safe to use from many threads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._uploads = Uploads()
        self._parts: OrderedDict[tuple[bytes | str, object], Float32] = OrderedDict()
        self._keeping = threading.Lock()

    def add_upload(self, data: bytes) -> Example:
        """Embed a picture (the bytes of its file) and keep it; Undecodable when it is none that can be read."""
        short_side = self._library.encoder.preprocessing.resize
        seen = self._library.decode(data, short_side)  # as `index` decodes: the very photo then scores 1
        vector = self._library.encoder.embed_image(seen.image)
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
            raise NothingToShow(_NOT_THERE) from error
        if photo.state != "indexed":
            raise NothingToShow(_NOT_THERE)
        return photo

    def for_library(self, example: Example) -> LibraryExample:
        """Return an example as `Library.search` takes it: an id, or a vector. Undecodable, BadCrop, NothingToShow."""
        if isinstance(example.of, str):
            upload = self.upload(example.of)
            return upload.vector if example.box is None else self._part(example, example.of, upload.file)
        photo = self.photo(example.of)
        if example.box is None:
            return photo.id
        try:
            return self._part(example, photo.content_hash or photo.path, self._library.original(photo.id))
        except PhotoGone as error:
            raise NothingToShow("This photo is gone from its folder, so no part of it can be searched with.") from error

    def _part(self, example: Example, picture: bytes | str, source: Path | bytes) -> Float32:
        key = (picture, example.box)
        with self._keeping:
            if key in self._parts:
                self._parts.move_to_end(key)
                return self._parts[key]
        assert example.crop is not None
        vector = self._library.encoder.embed_image(example.crop.of(self._library.decode(source).image))
        with self._keeping:
            self._parts[key] = vector
            if len(self._parts) > _PARTS:
                self._parts.popitem(last=False)
        return vector
