import io
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch.images.decode import Undecodable
from mocosearch.library import Library
from mocosearch.library.queries import Crop
from mocosearch_app.service.examples import Picture
from mocosearch_app.service.looks import Example, Filters, Search, Wall
from mocosearch_app.service.pictures.thumbnails import Kind, Thumbnails
from mocosearch_app.service.search import PAGE, SearchService
from mocosearch_app.service.tiles import NothingToShow, Tile
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import IndexSettings, SearchSettings
from tests.processes import are_gone, spawned_by


@pytest.fixture
def library(own_library: Path) -> Iterator[Library]:
    with Library.open(own_library) as library:
        yield library


@pytest.fixture
def service(library: Library) -> Iterator[SearchService]:
    with closing(SearchService(library, Thumbnails.of_library(library.index.folder))) as service:
        yield service


def paths(tiles: tuple[Tile, ...]) -> list[str]:
    return [f"{tile.folder}/{tile.name}" if tile.folder else tile.name for tile in tiles]


def id_of(library: Library, path: str) -> int:
    photo = library.index.photo_at(path.encode())
    assert photo is not None
    return photo.id


def of(photo_id: int) -> Search:
    return Search((Example(photo_id),))


def token_of(example: Example) -> str:
    assert isinstance(example.of, str)
    return example.of


def thumbnail(service: SearchService, tile: Tile) -> Image.Image:
    assert tile.thumbnail
    name = tile.thumbnail.removeprefix("/thumbnails/").removesuffix(".webp")
    return Image.open(io.BytesIO(service.picture(name, Kind.THUMBNAIL)))


def test_the_wall_is_a_shuffle_that_its_seed_repeats(service: SearchService) -> None:
    view = service.view(Wall(1))
    assert len(set(paths(view.tiles))) == len(view.tiles) == PAGE
    assert view.photos == 62
    assert view.like == ()
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
    view = service.view(of(photo_id))
    assert [tile.name for tile in view.like] == ["tall.png"]
    assert Example(photo_id) not in [tile.example for tile in view.tiles]
    scores = [tile.score for tile in view.tiles]
    assert scores == sorted(scores, key=lambda score: -(score or 0))
    assert view.milliseconds is not None


def test_an_uploaded_photo_of_the_library_finds_itself_first(service: SearchService, own_library: Path) -> None:
    path = sorted(own_library.glob("*/*.jpg"))[7]
    example = service.add_upload(path.read_bytes())
    view = service.view(Search((example,)))
    assert paths(view.tiles)[0] == f"{path.parent.name}/{path.name}"
    assert view.tiles[0].score == pytest.approx(1, abs=2e-3)
    assert view.like[0].thumbnail == f"/uploads/{example.of}.webp"
    assert Image.open(io.BytesIO(service.upload_preview(token_of(example)))).format == "WEBP"


def test_what_is_no_picture_is_refused_in_words(service: SearchService) -> None:
    with pytest.raises(Undecodable, match="no image"):
        service.add_upload(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")


def test_the_preview_of_an_upload_is_sharp_though_the_encoder_sees_little_of_it(service: SearchService) -> None:
    photo = io.BytesIO()
    Image.linear_gradient("L").resize((1600, 1200)).convert("RGB").save(photo, "JPEG")
    preview = service.upload_preview(token_of(service.add_upload(photo.getvalue())))
    assert Image.open(io.BytesIO(preview)).size == (512, 384)


@pytest.mark.parametrize("example", [Example(999), Example(10**17), Example("0" * 32), Example(999, (0, 0, 500, 500))])
def test_what_is_not_there_is_said_so(service: SearchService, example: Example) -> None:
    with pytest.raises(NothingToShow):
        service.view(Search((example,)))


def test_a_photo_has_a_thumbnail_a_preview_and_its_file_as_it_is(service: SearchService, indexed: Path) -> None:
    tile = next(tile for tile in service.view(Wall(0)).tiles if tile.name.startswith("wide"))
    detail = service.detail(int(tile.example.of))
    assert detail.preview is not None
    name = detail.preview.removeprefix("/previews/").removesuffix(".webp")
    assert Image.open(io.BytesIO(service.picture(name, Kind.PREVIEW))).size == (1200, 200)
    assert Image.open(io.BytesIO(service.thumbnail(int(tile.example.of)))).size == (512, 85)
    with pytest.raises(NothingToShow):
        service.picture(name, Kind.THUMBNAIL)
    original = service.original(int(tile.example.of))
    assert b"".join(original.chunks()) == (indexed / tile.name).read_bytes()
    with pytest.raises(NothingToShow):
        service.original(999)


@pytest.mark.parametrize("name", ["", "1", "1-" + "0" * 32, "fffffff-" + "0" * 32, "../key"])
def test_a_guessed_thumbnail_name_gives_nothing(service: SearchService, name: str) -> None:
    with pytest.raises(NothingToShow):
        service.picture(name, Kind.THUMBNAIL)


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
    search = of(id_of(library, "tall.png"))
    lost = service.view(search).tiles[3]
    (own_library / lost.folder / lost.name).unlink()
    after = service.view(search).tiles[3]
    assert (after.name, after.thumbnail, after.score) == (lost.name, None, lost.score)
    assert all(lost.example not in [tile.example for tile in service.view(Wall(seed)).tiles] for seed in range(5))
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
    assert service.detail(new).tile.name == "new.png"
    assert service.view(Wall(0)).photos == 61
    assert service.view(of(new)).like
    with pytest.raises(NothingToShow):
        service.view(of(dropped))


def test_an_index_that_was_made_anew_shows_at_the_next_look(
    service: SearchService, own_library: Path, make_library: Callable[[Path], None]
) -> None:
    assert (service.view(Wall(0)).photos, "River" in service.folders()) == (62, True)
    shutil.rmtree(own_library / ".mocosearch")
    shutil.rmtree(own_library / "River")
    make_library(own_library)  # in as many commits as before
    assert service.view(Wall(0)).photos == 56
    assert "River" not in service.folders()


def test_a_search_finds_what_another_process_has_just_indexed(
    service: SearchService, library: Library, own_library: Path
) -> None:
    tall = Example(id_of(library, "tall.png"))
    service.find([tall], [], Filters(), 1)
    shutil.copy(own_library / "tall.png", own_library / "twin.png")
    with Library.open(own_library, writable=True) as writer:
        writer.update()
    found = service.find([tall], [], Filters(), 1)
    assert paths(found.tiles) == ["twin.png"]
    assert (found.tiles[0].file, found.tiles[0].taken_at) == (own_library / "twin.png", None)


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
    looks = [of(photo.id) for photo in library.index.photos("indexed")]
    alone = [service.view(look).tiles for look in looks]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda look: service.view(look).tiles, looks))
    assert together == alone


def test_pictures_are_decoded_in_other_processes_which_end_with_the_library(own_library: Path) -> None:
    others = spawned_by(os.getpid(), doing=b"decode_worker")
    with (
        Library.open(own_library) as library,
        closing(SearchService(library, Thumbnails.of_library(library.index.folder))) as service,
    ):
        shutil.rmtree(library.index.folder / "thumbnails")  # of earlier tests
        thumbnail(service, service.view(Wall(1)).tiles[0])
        workers = [worker for worker in spawned_by(os.getpid(), doing=b"decode_worker") if worker not in others]
        assert workers
        with pytest.raises(Undecodable):
            service.add_upload(b"text")
    assert are_gone(workers, within=0)


def test_a_wall_goes_on_to_its_end_without_showing_a_photo_twice(service: SearchService) -> None:
    first = service.view(Wall(3))
    assert first.next_start == PAGE
    second = service.view(Wall(3), PAGE)
    assert (len(second.tiles), second.next_start) == (2, None)
    assert len({*paths(first.tiles), *paths(second.tiles)}) == 62


def test_a_search_goes_on_with_the_next_best(service: SearchService, library: Library) -> None:
    search = of(id_of(library, "tall.png"))
    first, second = service.view(search), service.view(search, PAGE)
    assert (first.matching, first.found, first.next_start) == (62, 61, PAGE)
    assert (len(second.tiles), second.next_start) == (1, None)
    assert (second.tiles[0].score or 0) <= (first.tiles[-1].score or 0)


def test_filters_by_folder_and_score_hold_for_walls_and_searches(service: SearchService, library: Library) -> None:
    river = Filters(folder="River")
    wall = service.view(Wall(1, river))
    assert (wall.photos, wall.matching) == (62, 6)
    assert {tile.folder for tile in wall.tiles} == {"River"}
    example = (Example(id_of(library, "tall.png")),)
    search = service.view(Search(example, (), river))
    assert (search.matching, search.found) == (6, 6)
    assert {tile.folder for tile in search.tiles} == {"River"}
    scores = [tile.score or 0 for tile in service.view(Search(example)).tiles]
    least = scores[10]
    near = service.view(Search(example, (), Filters(min_score=least)))
    assert (near.matching, near.found) == (62, len(near.tiles))
    assert [tile.score for tile in near.tiles] == [score for score in scores if score >= least]


@pytest.mark.parametrize("folder", ["Rive", "River/", "RIVER", "%", "*", "' or 1=1 --", "../..", "/etc", "x" * 10_000])
def test_a_folder_that_the_library_does_not_have_is_told(service: SearchService, folder: str) -> None:
    with pytest.raises(NothingToShow, match="no folder"):
        service.view(Wall(1, Filters(folder=folder)))


def test_folders_are_counted_with_what_is_below_them(service: SearchService) -> None:
    assert service.folders()["River"] == 6


def test_more_like_one_and_less_like_another_changes_what_is_found(service: SearchService, library: Library) -> None:
    tall, wide = (Example(id_of(library, name)) for name in ("tall.png", "wide & <b>bold<b>.png"))
    toward, away = service.view(Search((tall, wide))), service.view(Search((tall,), (wide,)))
    assert [tile.name for tile in (*toward.like, *away.like)] == ["tall.png", "wide & <b>bold<b>.png", "tall.png"]
    assert [tile.name for tile in away.unlike] == ["wide & <b>bold<b>.png"]
    assert paths(toward.tiles) != paths(away.tiles)


def test_a_part_of_an_upload_and_the_same_part_of_a_photo_find_the_same(
    service: SearchService, library: Library, own_library: Path
) -> None:
    box = (0, 0, 500, 250)
    token = token_of(service.add_upload((own_library / "tall.png").read_bytes()))
    of_upload = service.view(Search((Example(token, box),)))
    of_photo = service.view(Search((Example(id_of(library, "tall.png"), box),)))
    assert paths(of_upload.tiles) == paths(of_photo.tiles)
    assert paths(of_photo.tiles) != paths(service.view(of(id_of(library, "tall.png"))).tiles)


def test_a_part_of_less_than_a_pixel_is_told(service: SearchService) -> None:
    dot = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(dot, "PNG")
    token = token_of(service.add_upload(dot.getvalue()))
    with pytest.raises(NothingToShow, match="less than a pixel: choose a larger one"):
        service.view(Search((Example(token, (0, 0, 100, 100)),)))


def test_a_part_is_seen_as_well_when_no_more_of_the_picture_is_decoded_than_it_needs(
    service: SearchService, library: Library
) -> None:
    with ImageIndex.open(library.index.folder, writable=True) as index:  # scores are those of the vectors themselves
        index.set_settings(IndexSettings(SearchSettings(whiten=False)))
    photo = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (800, 1200, 3), np.uint8)  # where each pixel matters
    Image.fromarray(noise).save(photo, "JPEG")
    token = token_of(service.add_upload(photo.getvalue()))
    sparing = service.find([Example(token, (250, 125, 500, 250))], [], Filters(), 62).tiles
    whole = service.find([Picture(photo.getvalue(), Crop.parse("25%,12.5%,50%,25%"))], [], Filters(), 62).tiles
    scores = {tile.example: tile.score for tile in whole}
    assert [tile.score for tile in sparing] == [pytest.approx(scores[tile.example], abs=0.007) for tile in sparing]


def test_a_detail_tells_path_size_and_the_score_of_the_search(
    service: SearchService, library: Library, own_library: Path
) -> None:
    found = service.view(of(id_of(library, "tall.png"))).tiles[3]
    photo_id = id_of(library, found.path)
    detail = service.detail(photo_id, of(id_of(library, "tall.png")))
    assert detail.path == str(own_library / found.path)
    assert detail.size == (own_library / found.path).stat().st_size
    assert detail.tile.score == pytest.approx(found.score, abs=1e-6)
    assert service.detail(photo_id).tile.score is None
    (own_library / found.path).unlink()
    assert service.detail(photo_id).original is None
