from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch_app.page.detail import detail
from mocosearch_app.page.frame import frame
from mocosearch_app.page.grid import more
from mocosearch_app.page.parts import message
from mocosearch_app.page.search import photos
from mocosearch_app.service.looks import Example, Filters, Search, Wall
from mocosearch_app.service.tiles import Detail, Tile, View
from mocosearch_index.paths import printable

NASTY = "<img src=x onerror=alert(1)>\"'&`*_$$x$$_*`[a](javascript:1)"
KNOWN_TAGS = {
    *("section", "div", "h1", "p", "ul", "li", "a", "img", "span", "aside", "code", "header"),
    *("svg", "rect", "circle", "path", "button", "label", "input", "nav", "form", "datalist", "output", "dialog"),
    *("h2", "h3", "strong", "dl", "dt", "dd", "kbd", "figure"),
}


class Reader(HTMLParser):
    """Collects tags, the attributes of links and images, and checks that every element is closed."""

    VOID = frozenset({"img", "input", "rect", "circle", "path"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.found: list[dict[str, str | None]] = []
        self.open: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found.append(dict(attrs))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tile(name: str = "a.jpg", folder: str = "b", score: float | None = None, thumbnail: str | None = "/t.webp") -> Tile:
    return Tile(name, folder, 300, 200, thumbnail, Example(3), score)


def example(of: int | str, box: tuple[int, int, int, int] | None = None) -> Tile:
    return Tile(f"{of}.jpg", "", 300, 200, "/t.webp", Example(of, box))


def searched(
    *tiles: Tile,
    like: tuple[Tile, ...] = (),
    unlike: tuple[Tile, ...] = (),
    filters: Filters = Filters(),  # noqa: B008 - cannot be changed
    following: int | None = None,
) -> View:
    like = like or (tile("query.jpg"),)
    look = Search(tuple(each.example for each in like), tuple(each.example for each in unlike), filters)
    return View(look, "/photos", 1200, 700, tiles, 0, following, like, unlike, len(tiles), None, 12.34)


def detailed(shown: Tile) -> Detail:
    return Detail(shown, f"/photos/{shown.path}", 4_200_000, "2024-05-31T12:30:00", "/p.webp", "/api/photos/3/original")


def attributes(html: str, name: str) -> list[str | None]:
    return [found[name] for found in Reader(html).found if name in found]


@given(st.binary())
def test_no_file_name_becomes_markup_or_breaks_the_line(path: bytes) -> None:
    name = printable(path)
    nasty = tile(name, name, 0.5)
    view = searched(nasty, like=(nasty, nasty), unlike=(nasty,), filters=Filters(folder=name))
    html = photos(view, "1") + message(name, name, "1") + frame(name) + detail(detailed(nasty), view.look, "1")
    assert "\n" not in html
    assert set(Reader(html).tags) <= KNOWN_TAGS


def test_markup_in_a_name_is_shown_as_text() -> None:
    html = photos(searched(tile(NASTY, NASTY, 0.5)), "1")
    assert not any(key.startswith("on") for found in Reader(html).found for key in found)
    assert attributes(html, "alt") == ["query.jpg", NASTY]


def test_a_search_shows_the_query_and_each_neighbor_with_score_and_path() -> None:
    html = photos(searched(tile("x.jpg", "sea/far", 0.987), tile("y.jpg", "", -0.1)), "1")
    passing = "nearest first, of 700 photos that pass the filters, in 12 ms"
    for text in ("query.jpg", "300 × 200", "2 neighbors", passing, "0.987", "-0.100", "sea/far"):
        assert text in html
    nothing = photos(searched(), "1")
    assert "No neighbors" in nothing
    assert "nearest" not in nothing
    assert [found["title"] for found in Reader(html).found if found.get("href", "#") != "#"] == [
        "sea/far/x.jpg",
        "y.jpg",
    ]


def test_a_click_on_a_photo_searches_on_within_the_same_filters() -> None:
    html = photos(searched(tile(score=0.5), tile(score=0.4, thumbnail=None), filters=Filters("a & b", "2024")), "1")
    assert [href for href in attributes(html, "href") if href != "#"] == ["#like=3&folder=a+%26+b&from=2024"] * 2


def test_an_uploaded_picture_is_called_yours_and_gives_no_link_to_pass_on() -> None:
    query = Tile("Your picture", "", 300, 200, "/u.webp", Example("a" * 32))
    html = photos(searched(tile(score=1.0), like=(query,)), "1")
    assert "Your picture" in html
    assert f'data-look="like=u{"a" * 32}"' in html
    assert "link" not in attributes(html, "id")
    assert "link" in attributes(photos(searched(tile(score=1.0)), "1"), "id")


def test_several_examples_are_chips_that_can_be_taken_away() -> None:
    view = searched(tile(score=1.0), like=(example(1), example(2)), unlike=(example(4, (0, 0, 500, 500)),))
    html = photos(view, "1")
    assert attributes(html, "data-remove") == ["1", "2", "4@0,0,500,500"]
    assert attributes(html, "data-kind") == ["like", "like", "unlike"]
    assert attributes(html, "data-large") == ["2"]
    assert attributes(photos(searched(tile(score=1.0)), "1"), "data-remove") == []


def test_a_search_with_a_part_can_go_back_to_the_whole_picture() -> None:
    html = photos(searched(tile(score=1.0), like=(example(1, (100, 0, 500, 1000)),)), "1")
    assert attributes(html, "data-box") == ["100,0,500,1000"]
    assert "Whole picture" in html
    assert "Whole picture" not in photos(searched(tile(score=1.0), like=(example(1),)), "1")


def test_the_wall_says_how_many_photos_there_are_and_how_many_pass_its_filters() -> None:
    html = photos(View(Wall(7), "/photos", 1, 1, (tile(),), 0, None), "1")
    assert "1 photo<" in html
    assert 'data-look="wall=7"' in html
    assert "score" not in html
    assert "3 of 5 photos" in photos(View(Wall(7, Filters("a")), "/photos", 5, 3, (tile(),), 0, None), "1")


@pytest.mark.parametrize(
    ("photos_in_it", "matching", "words"),
    [(0, 0, "mocosearch index"), (5, 5, "Is its drive connected?"), (5, 0, "Clear the filters")],
)
def test_an_empty_wall_says_why(photos_in_it: int, matching: int, words: str) -> None:
    html = photos(View(Wall(7), "/my <photos>", photos_in_it, matching, (), 0, None), "1")
    assert words in html
    assert "<photos>" not in html


def test_a_photo_whose_file_is_gone_is_shown_so_without_a_picture() -> None:
    html = photos(searched(tile("lost.jpg", score=0.5, thumbnail=None)), "1")
    assert "gone from the folder" in html
    assert "lost.jpg" in html
    assert html.count("<img") == 1  # the query


def test_a_search_that_finds_nothing_says_why() -> None:
    assert "no other photo" in photos(searched(), "1")
    assert "clear-filters" in photos(searched(filters=Filters(min_score=0.9)), "1")


def test_extreme_panoramas_do_not_take_a_whole_row() -> None:
    wide = Tile("w.jpg", "", 30_000, 10, "/t.webp", Example(1), 0.5)
    assert "--ratio:2.2" in photos(searched(wide), "1")


def test_a_grid_tells_where_it_goes_on_and_stops_the_tab_key_at_one_photo() -> None:
    view = searched(tile(score=0.5), tile(score=0.4), following=60)
    assert attributes(photos(view, "1"), "data-next") == ["60"]
    links = [found["tabindex"] for found in Reader(photos(view, "1")).found if found.get("title") == "b/a.jpg"]
    assert links == ["0", "-1"]
    later = View(view.look, "/photos", 1200, 120, (tile(score=0.3),), 60, None, view.like)
    assert attributes(more(later, "9"), "data-next") == []
    assert attributes(more(later, "9"), "data-ask") == ["9"]


def test_the_panel_tells_all_of_a_photo_and_offers_what_can_be_done_with_it() -> None:
    html = detail(detailed(tile(score=0.5)), searched().look, "1")
    for text in ("/photos/b/a.jpg", "0.500", "2024-05-31, 12:30:00", "300 × 200", "4.2 MB"):
        assert text in html
    assert attributes(html, "href") == ["#like=3", "/api/photos/3/original"]
    assert attributes(html, "data-tool") == ["more", "less"]
    assert attributes(html, "data-copy") == ["/photos/b/a.jpg"]
    of_wall = detail(detailed(tile()), Wall(7), "1")
    assert attributes(of_wall, "data-tool") == []
    assert "Score" not in of_wall


def test_the_panel_of_a_photo_that_is_gone_has_no_picture_and_no_original() -> None:
    gone = Detail(tile(thumbnail=None), "/photos/b/a.jpg", 10, None, None, None)
    html = detail(gone, None, "1")
    assert "gone from the folder" in html
    assert "<img" not in html
    assert attributes(html, "href") == ["#like=3"]
