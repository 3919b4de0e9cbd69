"""What the tabs for looking after a library are told: groups with tiles, the table of copies, status and training."""

import csv
import io
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mocosearch.library import Library
from mocosearch.user_folders import set_current_encoder
from mocosearch_app.service.care.caretaker import Running, Task
from mocosearch_app.service.care.tabs import GROUPS, Care, DuplicatesView, Holdings
from mocosearch_app.service.care.training_run import run_of
from mocosearch_app.service.looks import Duplicates, LibraryFacts
from mocosearch_app.service.pictures.thumbnails import Thumbnails
from mocosearch_app.service.search import SearchService
from mocosearch_app.service.tiles import NothingToShow

ODD = os.fsdecode(b"a\",\";=cmd|'calc'!A0\t\n\xff.png")  # separators, quotes, a formula, a line break, no UTF-8


@pytest.fixture
def library(own_library: Path) -> Iterator[Library]:
    with Library.open(own_library) as library:
        yield library


@pytest.fixture
def care(library: Library) -> Iterator[Care]:
    service = SearchService(library, Thumbnails.of_library(library.index.folder))
    with closing(Care(library, service.tile_of)) as care:
        yield care


def do(care: Care, task: Task) -> None:
    assert care.act(task) is not None
    while isinstance(care.work(), Running):
        time.sleep(0.01)


def identical_files_of(care: Care, look: Duplicates = Duplicates()) -> DuplicatesView:  # noqa: B008 - immutable
    do(care, "rescan")
    do(care, "find-identical")
    return care.duplicates(look)


def holdings(care: Care) -> Holdings:
    while (known := care.library(LibraryFacts()).holdings) is None:
        pass
    return known


def test_before_anybody_looked_there_are_no_groups_and_no_table(care: Care) -> None:
    view = care.duplicates(Duplicates())
    assert (view.work, view.found, view.groups) == (None, None, [])
    with pytest.raises(NothingToShow, match="Duplicates"):
        care.duplicates_csv()


def test_groups_come_with_the_tile_of_every_photo(care: Care, library: Library) -> None:
    shutil.copy(library.root / "tall.png", library.root / "again.png")
    view = identical_files_of(care)
    [group] = view.groups
    photos = [group.keeper, *(copy.photo for copy in group.copies)]
    assert sorted(view.tiles[photo.id].name for photo in photos) == ["again.png", "tall.png"]
    assert all(view.tiles[photo.id].thumbnail for photo in photos)
    assert not view.is_old


def test_a_copy_that_went_since_is_shown_without_a_picture_and_the_groups_as_old(care: Care, library: Library) -> None:
    shutil.copy(library.root / "tall.png", library.root / "again.png")
    identical_files_of(care)
    (library.root / "again.png").unlink()
    do(care, "rescan")
    view = care.duplicates(Duplicates())
    assert view.is_old
    assert sorted((tile.name, tile.thumbnail is None) for tile in view.tiles.values()) == [
        ("again.png", True),
        ("tall.png", False),
    ]


def test_many_groups_are_paged_and_a_page_beyond_is_the_last(care: Care, library: Library) -> None:
    for number, photo in enumerate(sorted(library.root.glob("*/*.jpg"))[: GROUPS + 3]):
        shutil.copy(photo, library.root / f"{number}.jpg")
    first = identical_files_of(care)
    last = care.duplicates(Duplicates(99))
    assert (len(first.groups), len(last.groups)) == (GROUPS, 3)
    assert (first.pages, last.pages, last.look) == (2, 2, Duplicates(2))
    assert len({group.keeper.id for group in (*first.groups, *last.groups)}) == GROUPS + 3


def test_the_table_names_exact_paths_that_no_spreadsheet_takes_for_a_formula(care: Care, library: Library) -> None:
    shutil.copy(library.root / "tall.png", library.root / ODD)
    identical_files_of(care)
    text = care.duplicates_csv().decode("utf-8-sig", "surrogateescape")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["group"], row["kind"]) for row in rows] == [("1", "keep"), ("1", "identical")]
    assert {row["path"] for row in rows} == {str(library.root / "tall.png"), str(library.root / ODD)}
    assert {(row["bytes"], row["width"], row["height"]) for row in rows} == {
        (str((library.root / "tall.png").stat().st_size), "300", "900")
    }
    for delimiter in ",;\t":  # by what spreadsheets of other countries part cells
        cells = [cell for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_the_library_tells_what_it_holds_and_what_encoder_it_has(care: Care, library: Library) -> None:
    (library.root / "broken.jpg").write_bytes(b"no picture")
    known = holdings(care)
    assert known.status.drift is not None
    assert (known.status.counts["indexed"], known.status.drift.new) == (62, 1)
    assert known.encoder is not None
    assert (known.encoder.card.architecture, known.encoder.preprocessing.crop) == ("resnet18", 64)
    do(care, "rescan")
    assert [photo.path for photo in holdings(care).status.skipped] == [b"broken.jpg"]


@pytest.mark.parametrize("damage", ["missing", "cut", "another"])
def test_a_card_that_cannot_be_trusted_is_not_shown(care: Care, library: Library, damage: str) -> None:
    card = library.index.folder / "encoder" / "encoder.json"
    if damage == "missing":
        card.unlink()
    else:
        text = card.read_text()
        card.write_text(text[:-40] if damage == "cut" else text.replace(library.index.encoder.fingerprint, "0" * 16))
    assert holdings(care).encoder is None


@pytest.fixture
def run(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose encoder is the library's, remembered though another one was trained since."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    folder = tmp_path / "runs" / "mine"
    shutil.copytree(library.index.folder / "encoder", folder / "encoder")
    steps = [
        {"step": step, "loss": 9 - step / 100, "accuracy": 0.5, "queue_fill": step / 100} for step in range(1, 501)
    ]
    looks = [{"step": step, "epoch": step / 50, "effective_rank": 10.0 + step} for step in (0, 250, 500)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in steps))
    (folder / "health.jsonl").write_text("".join(json.dumps(row) + "\n" for row in looks) + '{"step": 75')
    set_current_encoder(folder / "encoder")
    set_current_encoder(tmp_path / "runs" / "newer" / "encoder")
    return folder


def test_the_curves_of_a_run_that_is_known_leave_out_the_queue_while_it_is_random(care: Care, run: Path) -> None:
    known = holdings(care).run
    assert known is not None
    assert (known.folder, known.steps, known.in_epochs) == (str(run), 500, True)
    assert known.curves.keys() == {"loss", "accuracy", "effective_rank"}
    assert known.curves["effective_rank"] == ((0, 10.0), (5.0, 260.0), (10.0, 510.0))
    epochs, losses = zip(*known.curves["loss"], strict=True)
    assert len(losses) <= 120
    assert (max(epochs), max(losses)) == (10.0, pytest.approx(8.0, abs=0.05))
    assert known.health == {"epoch": 10.0, "effective_rank": 510.0}


def test_the_run_of_another_encoder_is_not_shown(care: Care, run: Path, library: Library) -> None:
    assert run_of("0" * 16) is None
    shutil.rmtree(run)
    assert holdings(care).run is None
