from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch_app.page import render
from mocosearch_app.service.looks import Example, Search, Wall
from mocosearch_app.service.tiles import Tile, View
from mocosearch_index.paths import printable

NASTY = "<img src=x onerror=alert(1)>\"'&`*_$$x$$_*`[a](javascript:1)"
KNOWN_TAGS = {
    *("section", "div", "h1", "p", "ul", "li", "a", "img", "span", "aside", "code", "header"),
    *("svg", "rect", "circle", "path", "button", "label", "input"),
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


def searched(*tiles: Tile, query: Tile | None = None) -> View:
    query = query or tile("query.jpg")
    look = Search((query.example,))
    return View(look, "/photos", 1200, len(tiles), tiles, 0, None, (query,), (), 12.34)


@given(st.binary())
def test_no_file_name_becomes_markup_or_breaks_the_line(path: bytes) -> None:
    name = printable(path)
    view = searched(tile(name, name, 0.5), query=tile(name, name))
    html = render.view(view, "1") + render.message(name, name, "1") + render.header(name)
    assert "\n" not in html
    assert set(Reader(html).tags) <= KNOWN_TAGS


def test_markup_in_a_name_is_shown_as_text() -> None:
    html = render.view(searched(tile(NASTY, NASTY, 0.5)), "1")
    reader = Reader(html)
    assert not any(key.startswith("on") for found in reader.found for key in found)
    assert [found["alt"] for found in reader.found if "alt" in found] == ["query.jpg", NASTY]


def test_a_search_shows_the_query_and_each_neighbor_with_score_and_path() -> None:
    html = render.view(searched(tile("x.jpg", "sea/far", 0.987), tile("y.jpg", "", -0.1)), "1")
    for text in ("query.jpg", "300 × 200", "2 neighbors", "1,200 photos", "12 ms", "0.987", "-0.100", "sea/far"):
        assert text in html
    assert [found["title"] for found in Reader(html).found if "draggable" in found and "title" in found] == [
        "sea/far/x.jpg",
        "y.jpg",
    ]


def test_every_tile_is_a_link_that_searches_on() -> None:
    reader = Reader(render.view(searched(tile(score=0.5), tile(score=0.4, thumbnail=None)), "1"))
    assert [found["href"] for found in reader.found if "href" in found and "title" in found] == ["#like=3", "#like=3"]


def test_an_uploaded_picture_is_called_yours() -> None:
    query = Tile("Your picture", "", 300, 200, "/u.webp", Example("a" * 32))
    html = render.view(searched(tile(score=1.0), query=query), "1")
    assert "Your picture" in html
    assert f'data-look="like=u{"a" * 32}"' in html


def test_the_wall_says_how_many_photos_there_are() -> None:
    html = render.view(View(Wall(7), "/photos", 1, 1, (tile(),), 0, None), "1")
    assert "1 photo<" in html
    assert 'data-look="wall=7"' in html
    assert "0.5" not in html


@pytest.mark.parametrize(("photos", "words"), [(0, "mocosearch index"), (5, "Is its drive connected?")])
def test_an_empty_wall_says_why(photos: int, words: str) -> None:
    html = render.view(View(Wall(7), "/my <photos>", photos, photos, (), 0, None), "1")
    assert words in html
    assert "/my &lt;photos&gt;" in html


def test_a_photo_whose_file_is_gone_is_shown_so_without_a_picture() -> None:
    html = render.view(searched(tile("lost.jpg", score=0.5, thumbnail=None)), "1")
    assert "gone from the folder" in html
    assert "lost.jpg" in html
    assert html.count("<img") == 1  # the query


def test_the_only_photo_of_a_library_has_no_neighbors_and_says_so() -> None:
    assert "no other photo" in render.view(searched(), "1")


def test_extreme_panoramas_do_not_take_a_whole_row() -> None:
    wide = Tile("w.jpg", "", 30_000, 10, "/t.webp", Example(1), 0.5)
    assert "--ratio:2.2" in render.view(searched(wide), "1")
