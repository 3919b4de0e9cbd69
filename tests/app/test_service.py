import io
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from mocosearch.images.decode import Undecodable
from mocosearch.library import Library
from mocosearch_app.service.looks import OfPhoto, OfUpload, Wall
from mocosearch_app.service.search import SHOWN, NothingToShow, SearchService, Tile
from mocosearch_app.service.thumbnails import Thumbnails
from tests.processes import are_gone, spawned_by


@pytest.fixture
def library(own_library: Path) -> Iterator[Library]:
    with Library.open(own_library) as library:
        yield library


@pytest.fixture
def service(library: Library) -> SearchService:
    return SearchService(library, Thumbnails.of_library(library.index.folder))


def paths(tiles: tuple[Tile, ...]) -> list[str]:
    return [f"{tile.folder}/{tile.name}" if tile.folder else tile.name for tile in tiles]


def id_of(library: Library, path: str) -> int:
    photo = library.index.photo_at(path.encode())
    assert photo is not None
    return photo.id


def thumbnail(service: SearchService, tile: Tile) -> Image.Image:
    assert tile.thumbnail
    name = tile.thumbnail.removeprefix("/thumbnails/").removesuffix(".webp")
    return Image.open(io.BytesIO(service.thumbnail(name)))


def test_the_wall_is_a_shuffle_that_its_seed_repeats(service: SearchService) -> None:
    view = service.view(Wall(1))
    assert len(set(paths(view.tiles))) == len(view.tiles) == SHOWN
    assert view.photos == 62
    assert view.query is None
    assert view.tiles == service.view(Wall(1)).tiles
    assert view.tiles != service.view(Wall(2)).tiles


def test_a_tile_tells_name_folder_size_and_has_a_thumbnail(service: SearchService) -> None:
    tiles = {tile.name: tile for tile in (*service.view(Wall(1)).tiles, *service.view(Wall(2)).tiles)}
    tall = tiles["tall.png"]
    assert (tall.folder, tall.width, tall.height) == ("", 300, 900)
    assert thumbnail(service, tall).format == "WEBP"
    assert tiles.keys() >= {"wide & <b>bold<b>.png"}


def test_the_neighbors_of_a_photo_leave_itself_out_and_come_best_first(
    service: SearchService, library: Library
) -> None:
    photo_id = id_of(library, "tall.png")
    view = service.view(OfPhoto(photo_id))
    assert view.query is not None
    assert view.query.name == "tall.png"
    assert OfPhoto(photo_id) not in [tile.look for tile in view.tiles]
    scores = [tile.score for tile in view.tiles]
    assert scores == sorted(scores, key=lambda score: -(score or 0))
    assert view.milliseconds is not None


def test_an_uploaded_photo_of_the_library_finds_itself_first(service: SearchService, own_library: Path) -> None:
    path = sorted(own_library.glob("*/*.jpg"))[7]
    look = service.add_upload(path.read_bytes())
    view = service.view(look)
    assert paths(view.tiles)[0] == f"{path.parent.name}/{path.name}"
    assert view.tiles[0].score == pytest.approx(1, abs=2e-3)
    assert view.query is not None
    assert view.query.thumbnail == f"/uploads/{look.token}.webp"
    assert Image.open(io.BytesIO(service.upload_preview(look.token))).format == "WEBP"


def test_what_is_no_picture_is_refused_in_words(service: SearchService) -> None:
    with pytest.raises(Undecodable, match="no image"):
        service.add_upload(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")


def test_the_preview_of_an_upload_is_sharp_though_the_encoder_sees_little_of_it(service: SearchService) -> None:
    photo = io.BytesIO()
    Image.linear_gradient("L").resize((1600, 1200)).convert("RGB").save(photo, "JPEG")
    preview = service.upload_preview(service.add_upload(photo.getvalue()).token)
    assert Image.open(io.BytesIO(preview)).size == (512, 384)


@pytest.mark.parametrize("look", [OfPhoto(999), OfPhoto(10**17), OfUpload("0" * 32)])
def test_what_is_not_there_is_said_so(service: SearchService, look: OfPhoto | OfUpload) -> None:
    with pytest.raises(NothingToShow):
        service.view(look)


@pytest.mark.parametrize("name", ["", "1", "1-" + "0" * 32, "fffffff-" + "0" * 32, "../key"])
def test_a_guessed_thumbnail_name_gives_nothing(service: SearchService, name: str) -> None:
    with pytest.raises(NothingToShow):
        service.thumbnail(name)


def test_a_thumbnail_name_of_another_library_gives_nothing(
    service: SearchService, indexed: Path, tmp_path: Path
) -> None:
    twin = Path(shutil.copytree(indexed, tmp_path / "twin"))
    shutil.rmtree(twin / ".mocosearch" / "thumbnails", ignore_errors=True)
    with Library.open(twin) as other:
        theirs = SearchService(other, Thumbnails.of_library(other.index.folder)).view(Wall(1)).tiles[0]
        with pytest.raises(NothingToShow):
            thumbnail(service, theirs)


def test_a_photo_deleted_since_is_gone_in_a_search_and_left_out_of_the_wall(
    service: SearchService, library: Library, own_library: Path
) -> None:
    search = OfPhoto(id_of(library, "tall.png"))
    lost = service.view(search).tiles[3]
    (own_library / lost.folder / lost.name).unlink()
    after = service.view(search).tiles[3]
    assert (after.name, after.thumbnail, after.score) == (lost.name, None, lost.score)
    assert all(lost.look not in [tile.look for tile in service.view(Wall(seed)).tiles] for seed in range(5))
    with pytest.raises(NothingToShow):
        thumbnail(service, lost)


def test_what_another_process_indexes_or_drops_shows_at_the_next_look(
    service: SearchService, own_library: Path
) -> None:
    assert service.view(Wall(0)).photos == 62
    Image.new("RGB", (80, 60), "orange").save(own_library / "new.png")
    (own_library / "tall.png").unlink()
    (own_library / "wide & <b>bold<b>.png").unlink()
    with Library.open(own_library, writable=True) as writer:
        writer.update()
        new = id_of(writer, "new.png")
        dropped = id_of(writer, "tall.png")
    assert service.view(Wall(0)).photos == 61
    assert service.view(OfPhoto(new)).query is not None
    with pytest.raises(NothingToShow):
        service.view(OfPhoto(dropped))


def test_an_empty_library_has_an_empty_wall(make_library: Callable[[Path], None], tmp_path: Path) -> None:
    make_library(tmp_path)
    with Library.open(tmp_path) as library:
        view = SearchService(library, Thumbnails.of_library(library.index.folder)).view(Wall(0))
    assert (view.photos, view.tiles) == (0, ())


def test_photos_on_a_lost_drive_are_no_tiles(service: SearchService, own_library: Path) -> None:
    for path in own_library.iterdir():
        if path.name != ".mocosearch":
            path.rename(own_library.parent / path.name)
    view = service.view(Wall(0))
    assert (view.photos, view.tiles) == (62, ())


def test_many_threads_get_the_same_answers_as_one(service: SearchService, library: Library) -> None:
    looks = [OfPhoto(photo.id) for photo in library.index.photos("indexed")]
    alone = [service.view(look).tiles for look in looks]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda look: service.view(look).tiles, looks))
    assert together == alone


def test_pictures_are_decoded_in_other_processes_which_end_with_the_library(own_library: Path) -> None:
    others = spawned_by(os.getpid(), doing=b"decode_worker")
    with Library.open(own_library) as library:
        service = SearchService(library, Thumbnails.of_library(library.index.folder))
        shutil.rmtree(library.index.folder / "thumbnails")  # of earlier tests
        thumbnail(service, service.view(Wall(1)).tiles[0])
        workers = [worker for worker in spawned_by(os.getpid(), doing=b"decode_worker") if worker not in others]
        assert workers
        with pytest.raises(Undecodable):
            service.add_upload(b"text")
    assert are_gone(workers, within=0)
