"""The layer below the page and the HTTP interface: a look becomes tiles with thumbnails. Knows no gradio."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from mocosearch.errors import PhotoGone
from mocosearch.images.decode import DecodedImage, Undecodable
from mocosearch.library import Library
from mocosearch.library.recognize import path_of
from mocosearch_app.service.care.tabs import Care
from mocosearch_app.service.examples import NOT_THERE, Examples, Picture
from mocosearch_app.service.looks import Example, Filters, Search, Wall
from mocosearch_app.service.pictures.originals import Original, genuine_path, open_original
from mocosearch_app.service.pictures.thumbnails import Kind, Thumbnails
from mocosearch_app.service.shelf import Shelf
from mocosearch_app.service.tiles import Detail, Found, NothingToShow, Tile, View
from mocosearch_index.errors import UnknownPhoto
from mocosearch_index.paths import printable
from mocosearch_index.records import Photo, PhotoFilter

PAGE = 60  # tiles a step
MOST = 200  # photos that a search finds; a wall has no end
_LOOKED_AT = 4 * PAGE  # photos for a step of the wall, when many of their files are gone


class SearchService:
    """Answers looks about one library. Safe to call from many threads."""

    def __init__(self, library: Library, thumbnails: Thumbnails) -> None:
        self._library = library
        self._thumbnails = thumbnails
        self._shelf = Shelf(library)
        self._examples = Examples(library)
        self.care = Care(library, self.tile_of)

    def close(self) -> None:
        """End the work behind the page, keeping what it has done, and the threads that embed."""
        self.care.close()
        self._examples.close()

    @property
    def library_name(self) -> str:
        """The name of the library's folder, printable."""
        return self.root.rpartition("/")[2] or "/"

    @property
    def root(self) -> str:
        """The path of the library's folder, printable."""
        return printable(os.path.abspath(os.fsencode(self._library.root)))  # noqa: PTH100 - keeps links

    def folders(self) -> dict[str, int]:
        """Return how many photos are in each folder and below it, by its printable name."""
        return self._shelf.folders()

    # ---- looks

    def view(self, look: Wall | Search, start: int = 0) -> View:
        """Answer a look from its tile `start` on; NothingToShow for a photo, an upload or a folder that is not there.

        Undecodable when no part can be cut out of a picture.
        """
        return self._wall(look, start) if isinstance(look, Wall) else self._search(look, start)

    def _wall(self, look: Wall, start: int) -> View:
        order = self._shelf.shuffled(self._shelf.filter(look.filters), look.seed)
        tiles: list[Tile] = []
        place = start
        for photo_id in order[start : start + _LOOKED_AT].tolist():
            place += 1
            tile = self.tile_of(photo_id)
            if tile is not None and tile.thumbnail:  # past photos whose files are gone
                tiles.append(tile)
            if len(tiles) == PAGE:
                break
        next_start = place if place < len(order) and tiles else None
        return View(look, self.root, self._count(), len(order), tuple(tiles), start, next_start)

    def _search(self, look: Search, start: int) -> View:
        like, unlike = (tuple(map(self._example_tile, examples)) for examples in (look.like, look.unlike))
        where = self._shelf.filter(look.filters)
        found, milliseconds = self._nearest(look.like, look.unlike, MOST, where)
        matching = len(self._shelf.matching(where))
        end = start + PAGE
        tiles = self._tiles(found[start:end])
        return View(
            look,
            self.root,
            self._count(),
            matching,
            tiles,
            start,
            next_start=end if end < len(found) else None,
            like=like,
            unlike=unlike,
            found=len(found),
            lowest=found[-1][1] if found else None,
            milliseconds=milliseconds,
        )

    def find(self, like: Sequence[Example | Picture], unlike: Sequence[Example], filters: Filters, k: int) -> Found:
        """Find the `k` photos that pass the filters and are most like some examples and unlike others.

        Raises what `view` does; Undecodable also for a picture that cannot be read, Busy.
        """
        found, milliseconds = self._nearest(like, unlike, k, self._shelf.filter(filters))
        return Found(self._tiles(found), milliseconds)

    def _nearest(
        self, like: Sequence[Example | Picture], unlike: Sequence[Example], k: int, where: PhotoFilter
    ) -> tuple[list[tuple[int, float]], float]:
        self._shelf.contents()  # with the look at what other processes have committed
        began = time.perf_counter()
        wanted, unwanted = ([self._examples.for_library(each) for each in group] for group in (like, unlike))
        try:
            found = self._library.nearest(wanted, unwanted, k, where)
        except UnknownPhoto as error:  # forgotten between two looks
            raise NothingToShow(NOT_THERE) from error
        return found, (time.perf_counter() - began) * 1000

    def detail(self, photo_id: int, look: Wall | Search | None = None) -> Detail:
        """Tell all that is known of a photo, with its score by `look` if that is a search; NothingToShow."""
        photo = self._photo(photo_id)
        score = None
        if isinstance(look, Search):
            found, _ = self._nearest(look.like, look.unlike, 1, PhotoFilter(ids=frozenset({photo_id})))
            score = found[0][1] if found else None
        tile = self._tile(photo, score)
        path = f"{self.root.rstrip('/')}/{tile.path}"
        if tile.thumbnail is None:
            return Detail(tile, path, photo.size, photo.taken_at, None, None)
        preview = f"/previews/{self._thumbnails.name(photo, Kind.PREVIEW)}.webp"
        return Detail(tile, path, photo.size, photo.taken_at, preview, f"/api/photos/{photo.id}/original")

    # ---- pictures

    def add_upload(self, data: bytes) -> Example:
        """Embed a picture (the bytes of its file) and return the example that searches with it.

        Raises Undecodable when it is no picture that can be read, Busy.
        """
        return self._examples.add_upload(data)

    def picture(self, name: str, kind: Kind) -> bytes:
        """Return the WebP called `name`; NothingToShow when nothing is called so, or the file is gone."""
        photo_id = self._thumbnails.photo_id(name)
        if photo_id is None:
            raise NothingToShow("There is no such picture.")
        photo = self._examples.photo(photo_id)
        if not self._thumbnails.is_genuine(name, photo, kind):
            raise NothingToShow("There is no such picture.")
        return self._small(photo, kind)

    def thumbnail(self, photo_id: int) -> bytes:
        """Return the thumbnail of a photo as WebP; NothingToShow."""
        return self._small(self._photo(photo_id), Kind.THUMBNAIL)

    def original(self, photo_id: int) -> Original:
        """Open the file of a photo; NothingToShow when it is gone."""
        try:
            return open_original(self._library.root, self._photo(photo_id))
        except PhotoGone as error:
            raise NothingToShow(str(error)) from error

    def upload_preview(self, token: str) -> bytes:
        """Return a WebP of an uploaded picture; NothingToShow when it was never there or is forgotten."""
        return self._examples.preview(token)

    def _small(self, photo: Photo, kind: Kind) -> bytes:
        def decode(_: Path, short_side: int) -> DecodedImage:
            return self._library.decode(genuine_path(self._library.root, photo), short_side)

        try:
            return self._thumbnails.get(photo, kind, self._library.original(photo.id), decode)
        except (PhotoGone, Undecodable, UnknownPhoto) as error:
            raise NothingToShow(str(error)) from error

    def load_encoder(self) -> None:
        """Load the encoder now rather than at the first picture that is searched with."""
        self._examples.load_encoder()

    # ---- tiles

    def _count(self) -> int:
        return len(self._shelf.contents().ids)

    def tile_of(self, photo_id: int) -> Tile | None:
        """Return the tile of a photo; None when the library has forgotten it."""
        try:
            return self._tile(self._examples.photo(photo_id))
        except NothingToShow:  # forgotten since its id was read
            return None

    def _photo(self, photo_id: int) -> Photo:
        self._shelf.contents()  # with the look at what other processes have committed
        return self._examples.photo(photo_id)

    def _example_tile(self, example: Example) -> Tile:
        if isinstance(example.of, str):
            upload = self._examples.upload(example.of)
            return Tile("Your picture", "", upload.width, upload.height, f"/uploads/{example.of}.webp", example)
        tile = self._tile(self._examples.photo(example.of))
        return Tile(tile.name, tile.folder, tile.width, tile.height, tile.thumbnail, example)

    def _tiles(self, found: Sequence[tuple[int, float]]) -> tuple[Tile, ...]:
        return tuple(self._tile(hit.photo, hit.score) for hit in self._library.hits(found))

    def _tile(self, photo: Photo, score: float | None = None) -> Tile:
        folder, _, name = printable(photo.path).rpartition("/")
        file, thumbnail = path_of(self._library.index, photo), None
        if os.path.isfile(file):  # noqa: PTH113 - Path.is_file raises where a folder is closed
            thumbnail = f"/thumbnails/{self._thumbnails.name(photo, Kind.THUMBNAIL)}.webp"
        width, height, example = photo.width or 1, photo.height or 1, Example(photo.id)
        return Tile(name, folder, width, height, thumbnail, example, score, file, photo.taken_at)
