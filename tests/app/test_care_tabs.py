"""The tabs Duplicates and Library as HTML: what they say in which state, and that nothing in it comes alive."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mocosearch.duplicates.find import Copy, DuplicateReport, Group
from mocosearch.duplicates.threshold import Calibration, Threshold
from mocosearch.encoders.card import IMAGENET, EncoderCard, EncoderFacts
from mocosearch.library import LibraryStatus, UpdateReport
from mocosearch.library.status import Drift
from mocosearch_app.page.care.duplicates_tab import duplicates_tab
from mocosearch_app.page.care.library_tab import library_tab
from mocosearch_app.page.words import size, time_left
from mocosearch_app.service.care.caretaker import Ended, Found, Running
from mocosearch_app.service.care.tabs import COPIES, DuplicatesView, Holdings, LibraryView, Work
from mocosearch_app.service.care.training_run import TrainingRun
from mocosearch_app.service.looks import Duplicates, Example, LibraryFacts
from mocosearch_app.service.tiles import Tile
from mocosearch_index.records import EncoderIdentity, IndexSettings, Photo, SearchReport

EVIL = "<img src=x onerror=alert(1)>'\"&"


def photo(photo_id: int, name: str = "photo.jpg", size: int = 1000, **facts: str) -> Photo:
    known = {"state": "indexed", "reason": None, "detail": None, "taken_at": None} | facts
    return Photo(photo_id, name.encode(), size, 0, b"hash", 300, 200, **known)  # type: ignore[arg-type]


def tile(photo_id: int, name: str = "photo.jpg", folder: str = "") -> Tile:
    return Tile(name, folder, 300, 200, f"/thumbnails/{photo_id}.webp", Example(photo_id))


def found(*groups: Group, near: bool = True, calibration: Calibration | None = None) -> Found:
    return Found(DuplicateReport(100, list(groups), calibration, True, False, 0), near, (b"", 7))


def shown(found: Found | None, work: Work = None, *, is_old: bool = False, page: int = 1, pages: int = 1) -> str:
    groups = found.report.groups if found else []
    photos = [photo for group in groups for photo in (group.keeper, *(copy.photo for copy in group.copies))]
    tiles = {photo.id: tile(photo.id, photo.path.decode()) for photo in photos}
    return duplicates_tab(DuplicatesView(Duplicates(page), work, found, is_old, groups, tiles, pages), "3")


NEAR = Group(photo(1, "large.jpg"), "most pixels", [Copy(photo(2, "small.jpg"), False, 0.98765, "mirrored")])
SAME = Group(photo(3, "a.jpg"), "oldest", [Copy(photo(4, "b.jpg"), True, 1.0, None)])


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def update(**changes: object) -> UpdateReport:
    nothing = UpdateReport(*[0] * 10, skipped=[], unreadable=[], stopped=False)
    return replace(nothing, **changes)  # type: ignore[arg-type]


def test_before_anybody_looked_there_is_a_button_to_look_and_nothing_to_export() -> None:
    html = shown(None)
    assert 'data-action="find-copies"' in html
    assert 'data-action="find-identical"' in html
    assert "duplicates.csv" not in html
    assert "Nobody has looked" in html
    assert "data-again" not in html


def test_a_group_names_what_to_keep_and_why_and_how_like_the_copies_are() -> None:
    html = shown(found(NEAR, SAME))
    words = text(html)
    assert "Keep: most pixels" in words
    assert "0.988 alike, mirrored" in words
    assert "Identical files" in words
    assert "1 group of identical files, 1 with near copies" in words
    assert 'href="/api/duplicates.csv"' in html
    assert html.index("large.jpg") < html.index("small.jpg")


def test_what_was_measured_is_told_with_the_groups() -> None:
    good, bad = Threshold(0.9, 0.96, 0.8, {}), Threshold(None, 0.0, 0.0, {})
    words = text(shown(found(NEAR, calibration=Calibration(good, bad, 100, 100))))
    assert "from a likeness of 0.900 on" in words
    assert "96% of such pairs are right, and 80% of made copies are found" in words
    assert "Turned and mirrored photos are not told" in words


def test_no_copies_are_said_to_be_none() -> None:
    html = shown(found(near=False))
    assert "No copies among 100 photos" in html
    assert "Only files with the same bytes" in html
    assert "duplicates.csv" not in html


def test_of_a_large_group_a_part_is_shown_and_the_rest_counted() -> None:
    copies = [Copy(photo(number), True, 1.0, None) for number in range(2, COPIES + 7)]
    html = shown(found(Group(photo(1), "oldest", copies)))
    assert html.count('<li class="member') == 1 + COPIES
    assert "and 5 more" in html


def test_pages_lead_to_each_other_and_end_at_the_ends() -> None:
    first, middle, last = (shown(found(NEAR), page=page, pages=3) for page in (1, 2, 3))
    assert 'rel="prev"' not in first
    assert 'rel="next" href="#duplicates=2"' in first
    assert 'rel="prev" href="#duplicates"' in middle
    assert 'rel="next"' not in last
    assert 'class="pager"' not in shown(found(NEAR))


def test_groups_of_a_library_that_changed_are_said_to_be_old() -> None:
    assert "has changed since" in shown(found(NEAR), is_old=True)
    assert "has changed since" not in shown(found(NEAR))


def test_while_work_goes_on_the_page_asks_again_and_no_other_work_can_begin() -> None:
    html = shown(found(NEAR), Running("find-copies", "Comparing", 1200, 5000, 200))
    assert 'data-again="1000"' in html
    assert html.count(" disabled>") == 2
    assert "comparing all photos, 1,200 of 5,000, about 3 minutes left" in text(html)
    assert '<progress aria-label="Looking for copies" value="1200" max="5000">' in html
    assert 'data-action="stop"' in html
    assert "stopping" in shown(None, Running("rescan", stopping=True))


def test_a_failure_is_told_on_its_own_tab_only() -> None:
    ended = Ended("rescan", failure=f"The disk is full: {EVIL}")
    assert "The disk is full" not in shown(None, ended)
    html = library(ended)
    assert "The disk is full" in html
    assert EVIL not in html


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({}, "The library is up to date: nothing new."),
        ({"embedded": 12, "missing": 3, "left_out": 1}, "up to date: 12 new or changed, 2 gone, 1 left out by rules."),
        ({"embedded": 5, "stopped": True}, "Stopped; what was done is kept: 5 new or changed."),
        ({"kept": 40}, "40 photos are gone from the folder but were kept"),
    ],
)
def test_a_rescan_says_what_came_of_it(report: dict[str, object], words: str) -> None:
    assert words in text(library(Ended("rescan", update=update(**report))))


STATUS = LibraryStatus(
    root=Path("/photos & more"),
    folder=Path("/photos & more/.mocosearch"),
    encoder=EncoderIdentity("f" * 16, 512, "resnet18"),
    newer_encoder=None,
    counts={"indexed": 1234, "skipped": 2, "missing": 0},
    skip_reasons={"truncated": 2},
    skipped=[
        photo(8, f"{EVIL}.jpg", reason="truncated", detail=f"cut\n\noff {EVIL}"),
        photo(9, "b.jpg", reason="truncated", detail="cut"),
    ],
    drift=Drift(new=3, changed=0, gone=1, returned=0, unreadable=0),
    unreachable=None,
    search=SearchReport("ivf", 1234, 256, True, 512.0, 0.987, 64, 8),
    settings=IndexSettings(exclude=(EVIL,)),
    bytes_by_part={"vectors": 2_500_000, "catalog": 40_000},
)
CARD = EncoderCard("resnet18", True, 128, f"/photos/{EVIL}", 1000, 5000, "moco_v2_small", "2026-01-02T03:04:05+00:00")
FACTS = EncoderFacts(CARD, IMAGENET, "f" * 16)
RUN = TrainingRun("/runs/1", 500, True, {"loss": ((0.0, 8.0), (1.0, 6.0), (2.0, 4.0))}, {"effective_rank": 99.7})


def library(
    work: Work = None,
    status: LibraryStatus | None = STATUS,
    facts: EncoderFacts | None = FACTS,
    run: TrainingRun | None = RUN,
) -> str:
    holdings = None if status is None else Holdings(status, facts, run)
    return library_tab(LibraryView(LibraryFacts(), work, holdings), "4")


def test_the_library_tells_counts_drift_recall_memory_disk_and_encoder() -> None:
    words = text(library())
    for fact in (
        "Indexed 1,234",
        "3 new, 1 gone since it was indexed",
        "98.7% recall@10",
        "8 of 64 are visited",
        "632 kB 512 bytes a photo",
        "In all 2.5 MB",
        "resnet18, small stem",
        "moco_v2_small",
        "224 × 224 pixels",
        "2026-01-02, 03:04:05 UTC",
        "Effective rank 99.7",
        "2 files skipped",
        "truncated 2 files",
    ):
        assert fact in words


def test_curves_are_told_in_words_and_stay_in_their_drawing() -> None:
    html = library()
    assert 'aria-label="Loss: from 8 to 4 in 2.0 epochs"' in html
    points = re.findall(r'points="([^"]*)"', html)
    assert points == ["0.0,0.0 120.0,40.0 240.0,80.0"]
    level = replace(RUN, curves={"loss": ((0.0, 8.0), (0.0, 8.0))})
    assert 'points="0.0,80.0 0.0,80.0"' in library(run=level)


def test_what_is_not_known_is_left_out_or_said() -> None:
    lost = replace(
        STATUS, drift=None, unreachable="There is no folder", search=SearchReport("exact", 9, 8, False, 16, *[None] * 3)
    )
    words = text(library(status=lost, facts=None, run=None))
    assert "cannot be looked at. There is no folder" in words
    assert "all of them recall@10" in words
    assert "missing or damaged: run mocosearch verify" in words
    assert "How the encoder was trained" not in words


def test_a_folder_that_takes_long_is_waited_for() -> None:
    html = library(status=None)
    assert "Looking through the library" in html
    assert 'data-again="1000"' in html


@pytest.mark.parametrize("html", [library(), shown(found(Group(photo(1, EVIL), "oldest", [])))])
def test_no_name_comes_alive_and_all_stays_on_one_line(html: str) -> None:
    assert "<img src=x" not in html
    assert "\n" not in html


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (1_536_000, "1.5 MB"),
        (250e6, "250 MB"),
        (3e15, "3,000 TB"),
    ],
)
def test_sizes_are_told_in_their_unit(number: float, words: str) -> None:
    assert size(number) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (5, "less than a minute left"),
        (61, "about 1 minute left"),
        (600, "about 10 minutes left"),
        (7300, "about 2 hours left"),
    ],
)
def test_time_left_is_told_roughly(seconds: float, words: str) -> None:
    assert time_left(seconds) == words
