"""The layer below the page and the HTTP interface: a look becomes tiles with thumbnails. Knows no gradio."""

import os
import random
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from mocosearch.errors import PhotoGone
from mocosearch.images.decode import Undecodable
from mocosearch.library import Library
from mocosearch_app.service.looks import Look, OfPhoto, OfUpload, Wall
from mocosearch_app.service.thumbnails import SHORT_SIDE, Thumbnails, encode
from mocosearch_app.service.uploads import Upload, Uploads
from mocosearch_index.errors import MocosearchError, UnknownPhoto
from mocosearch_index.paths import printable
from mocosearch_index.records import Photo

SHOWN = 60  # photos on the wall, and neighbors of a search
_NOT_THERE = "This photo is not in the library (any more)."


class NothingToShow(MocosearchError):
    """What was asked for is not there, or not there any more."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One photo as the page shows it; sizes in pixels of the upright original.

    `thumbnail` is an address on this server, None when the file is gone. `look` searches on from it.
    """

    name: str
    folder: str
    width: int
    height: int
    thumbnail: str | None
    look: Look
    score: float | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows for a look: the tiles and, of a search, the query picture and the time it took."""

    look: Look
    root: str
    photos: int
    tiles: tuple[Tile, ...]
    query: Tile | None = None
    milliseconds: float | None = None


class SearchService:
    """Answers looks about one library. Safe to call from many threads."""

    def __init__(self, library: Library, thumbnails: Thumbnails) -> None:
        self._library = library
        self._thumbnails = thumbnails
        self._uploads = Uploads()
        self._ids: list[int] = []
        self._ids_change: int | None = None
        self._refreshing = threading.Lock()
        self._loading = threading.Lock()

    @property
    def library_name(self) -> str:
        """The name of the library's folder, printable."""
        return self.root.rpartition("/")[2] or "/"

    @property
    def root(self) -> str:
        """The path of the library's folder, printable."""
        return printable(os.path.abspath(os.fsencode(self._library.root)))  # noqa: PTH100 - keeps links

    def view(self, look: Look) -> View:
        """Answer a look. Raises NothingToShow for an id or an upload that is not known."""
        ids = self._current_ids()
        match look:
            case Wall(seed):
                return self._view(look, ids, self._shuffled(ids, seed))
            case OfPhoto(photo_id):
                query = self._tile(self._photo(photo_id))
                start = time.perf_counter()
                hits = self._library.search([photo_id], k=SHOWN)
            case OfUpload(token):
                upload = self._upload(token)
                query = _upload_tile(look, upload)
                start = time.perf_counter()
                hits = self._library.search([upload.vector], k=SHOWN)
        milliseconds = (time.perf_counter() - start) * 1000
        tiles = [self._tile(hit.photo, hit.score) for hit in hits]
        return self._view(look, ids, tiles, query, milliseconds)

    def add_upload(self, data: bytes) -> OfUpload:
        """Embed a picture (the bytes of its file) and return the look that searches with it.

        Raises Undecodable when it is no picture that can be read.
        """
        seen = self._library.decode(data, self._short_side())  # as `index` decodes: the very photo then scores 1
        preview = encode(self._library.decode(data, SHORT_SIDE).image)
        vector = self._library.encoder.embed_image(seen.image)
        return OfUpload(self._uploads.add(Upload(vector, preview, seen.width, seen.height)))

    def thumbnail(self, name: str) -> bytes:
        """Return the WebP called `name`; NothingToShow when nothing is called so, or the file is gone."""
        photo_id = self._thumbnails.photo_id(name)
        if photo_id is None:
            raise NothingToShow("There is no such thumbnail.")
        photo = self._photo(photo_id)
        if not self._thumbnails.is_genuine(name, photo):
            raise NothingToShow("There is no such thumbnail.")
        try:
            return self._thumbnails.get(photo, self._library.original(photo.id), self._library.decode)
        except (PhotoGone, Undecodable) as error:
            raise NothingToShow(str(error)) from error

    def upload_preview(self, token: str) -> bytes:
        """Return a WebP of an uploaded picture; NothingToShow when it was never there or is forgotten."""
        return self._upload(token).preview

    def load_encoder(self) -> None:
        """Load the encoder now rather than at the first upload."""
        with self._loading:
            _ = self._library.encoder

    def _short_side(self) -> int:
        self.load_encoder()
        return self._library.encoder.preprocessing.resize

    def _current_ids(self) -> list[int]:
        """The ids of all indexed photos, after a look whether another process has changed the index."""
        with self._refreshing:
            index = self._library.index
            index.refresh()
            if index.change != self._ids_change:
                self._ids = [photo.id for photo in index.photos("indexed")]
                self._ids_change = index.change
            return self._ids

    def _shuffled(self, ids: list[int], seed: int) -> Iterator[Tile]:
        """Yield up to SHOWN tiles in the order of `seed`, past photos whose files are gone."""
        drawn = random.Random(seed).sample(ids, min(len(ids), 4 * SHOWN))
        tiles = (self._tile(self._library.index.photo(photo_id)) for photo_id in drawn)
        return islice((tile for tile in tiles if tile.thumbnail), SHOWN)

    def _photo(self, photo_id: int) -> Photo:
        try:
            photo = self._library.index.photo(photo_id)
        except UnknownPhoto as error:
            raise NothingToShow(_NOT_THERE) from error
        if photo.state != "indexed":
            raise NothingToShow(_NOT_THERE)
        return photo

    def _upload(self, token: str) -> Upload:
        upload = self._uploads.get(token)
        if upload is None:
            raise NothingToShow("This picture is no longer in memory: choose it once more.")
        return upload

    def _tile(self, photo: Photo, score: float | None = None) -> Tile:
        folder, _, name = printable(photo.path).rpartition("/")
        try:
            self._library.original(photo.id)
            thumbnail = f"/thumbnails/{self._thumbnails.name(photo)}.webp"
        except PhotoGone:
            thumbnail = None
        return Tile(name, folder, photo.width or 1, photo.height or 1, thumbnail, OfPhoto(photo.id), score)

    def _view(
        self,
        look: Look,
        ids: list[int],
        tiles: Iterable[Tile],
        query: Tile | None = None,
        milliseconds: float | None = None,
    ) -> View:
        return View(look, self.root, len(ids), tuple(tiles), query, milliseconds)


def _upload_tile(look: OfUpload, upload: Upload) -> Tile:
    preview = f"/uploads/{look.token}.webp"
    return Tile("Your picture", "", upload.width, upload.height, preview, look)
