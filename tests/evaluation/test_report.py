"""The report of an evaluation: whole in one file, harmless whatever the photos are called, right in what it shows."""

import base64
import hashlib
import io
import json
import math
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from mocosearch.errors import CannotReport, Unscorable
from mocosearch.evaluation.outcome import Curve, Examples, Figure, Outcome
from mocosearch.evaluation.report import Contestant, Evaluation, check_report_path, write_report
from mocosearch.evaluation.report.page import ABOUT, render
from mocosearch.images.decode import Undecodable
from mocosearch_index.errors import NotWritable
from tests.app.browsing import OPTIONS, browser, serious_faults

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]

HOSTILE = "<script>alert('1')</script>\"&amp;\n.png"
COLORS = [(250, 10, 10), (10, 250, 10), (10, 10, 250), (250, 250, 10), (10, 250, 250), (250, 10, 250)]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six photos of one color each, with a place in their metadata; two with names that are hard to show."""
    names = [b"a/0.png", b"a/1.png", b"a/2.png", b"b/3.png", b"b/" + HOSTILE.replace("/", "_").encode(), b"b/\xff.png"]
    folder = tmp_path_factory.mktemp("evaluated")
    paths = [folder / "photos" / os.fsdecode(name) for name in names]
    exif = Image.Exif()
    exif[0x010E] = "SECRET PLACE"
    for path, color in zip(paths, COLORS, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 24), color).save(path, exif=exif)
    return paths


def outcome(right: list[float]) -> Outcome:
    """What a protocol says of six photos of which some are `right`."""
    numbers = np.array(right)
    examples = Examples(
        np.array([0, 4]),
        np.array([[1, 2, 3], [5, 3, 0]]),
        np.array([[0.99, 0.9, 0.5], [0.8, 0.7, -0.1]], dtype=np.float32),
        np.array([[True, True, False], [True, True, False]]),
    )
    curve = Curve("Accuracy", "neighbors", "accuracy", np.array([1.0, 2, 5]), np.array([0.5, math.nan, 0.75]), True)
    figures = (
        Figure("kNN accuracy", float(numbers.mean()), 0.5, of_photos=numbers),
        Figure("RankMe", 153.25),
        Figure("loss", math.nan, better="lower"),
    )
    return Outcome("knn", figures, {"k": 3, "scored": 6}, (curve,), examples, ("Few <photos>.",))


@pytest.fixture(scope="module")
def evaluation(photos: list[Path]) -> Evaluation:
    contestants = (
        Contestant("mine", "resnet18 trained on <tiles>", "0" * 16, 512, outcome([1, 1, 1, 1, 1, 1])),
        Contestant("untrained", "resnet18, untrained", "1" * 16, 512, outcome([1, 1, 1, 1, 1, 0])),
    )
    skipped = [(photos[0].with_name("<b>.jpg"), Undecodable("truncated", "cut <off>"))]
    return Evaluation(
        photos[0].parents[1],
        photos,
        ["a", "a", "a", "b<i>", "b<i>", "b<i>"],
        2,
        skipped,
        contestants,
        "mocosearch eval knn 'a & b'",
        "2026-11-30T05:00:00+00:00",
    )


@pytest.fixture(scope="module")
def html(evaluation: Evaluation) -> str:
    return render(evaluation)


class Page(HTMLParser):
    """The elements of a page and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.text += " "

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, wanted: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag == wanted]


def test_a_report_is_one_file_without_script_that_asks_for_nothing(html: str) -> None:
    page = Page(html)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form", "a"}
    addresses = [
        value for _, attributes in page.elements for name, value in attributes.items() if name in ("src", "href")
    ]
    assert addresses
    assert all(address.startswith("data:image/webp;base64,") for address in addresses)
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.elements for name in attributes)
    [style] = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    [policy] = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; img-src data:; style-src 'sha256-{digest}';")


def test_names_that_are_html_or_not_utf_8_are_shown_as_what_they_are(html: str) -> None:
    page = Page(html)
    assert not {"b<i>", "i"} & {tag for tag, _ in page.elements}
    alternatives = [image["alt"] for image in page.all("img")]
    assert f"Searched with: b/{HOSTILE.replace('/', '_')}".replace("\n", "\\n") in alternatives
    assert r"b/\xff.png, a hit" in alternatives
    for text in ("resnet18 trained on <tiles>", "Few <photos>.", "cut <off>", "mocosearch eval knn 'a & b'", "<b>.jpg"):
        assert text in page.text
    assert "\udcff" not in page.text


def test_the_pictures_are_those_of_the_photos_small_and_without_their_metadata(html: str) -> None:
    pictures = {}
    for image in Page(html).all("img"):
        data = base64.b64decode(image["src"].partition(",")[2])
        assert b"SECRET" not in data
        picture = Image.open(io.BytesIO(data))
        assert (picture.format, picture.size, dict(picture.getexif())) == ("WEBP", (128, 128), {})
        pictures[image["alt"]] = np.asarray(picture.convert("RGB")).mean(axis=(0, 1))
    assert pictures["Searched with: a/0.png"] == pytest.approx(COLORS[0], abs=6)
    assert pictures["a/2.png, a hit"] == pytest.approx(COLORS[2], abs=6)
    assert pictures["b/3.png, a miss"] == pytest.approx(COLORS[3], abs=6)


def test_hits_and_misses_are_told_by_sign_frame_and_words(evaluation: Evaluation) -> None:
    html = render(replace(evaluation, contestants=evaluation.contestants[:1]))
    found = [re.sub(r"\s+", " ", item) for item in re.findall(r"<li class=.*?</li>", html, re.DOTALL)]
    assert [re.findall(r'^<li class="(\w+)"', item)[0] for item in found] == [
        "hit",
        "hit",
        "miss",
        "hit",
        "hit",
        "miss",
    ]
    for item in found:
        is_hit = item.startswith('<li class="hit"')
        assert ("✓" in item, "✗" in item) == (is_hit, not is_hit)
        assert (", a hit" in item, ", a miss" in item) == (is_hit, not is_hit)
    assert "b&lt;i&gt;" in found[2]  # what it is instead
    assert "-0.10" in found[5]
    assert html.count("2 of 3 belong to it") == 2


def test_a_photo_that_is_gone_costs_its_picture_only(evaluation: Evaluation, photos: list[Path]) -> None:
    moved = [*photos[:1], photos[1].with_name("gone.png"), *photos[2:]]
    page = Page(render(replace(evaluation, photos=moved)))
    assert not [image for image in page.all("img") if image["alt"].startswith("a/gone.png")]
    gone = [span["aria-label"] for span in page.all("span") if span.get("class") == "gone"]
    assert gone == ["a/gone.png, a hit; it cannot be read any more"] * 2  # once for each encoder


def test_the_table_says_value_interval_chance_difference_and_tie(evaluation: Evaluation, html: str) -> None:
    text = re.sub(r"\s+", " ", Page(html).text)
    assert "Against mine" in text
    assert "mine 1.000 0.610 to 1.000" in text  # Wilson's interval of 6 of 6
    assert re.search(r"untrained 0\.833 0\.\d+ to 0\.\d+ -0\.167 tie -0\.\d+ to 0\.\d+", text)
    assert "chance 0.500" in text
    assert "loss (lower is better)" in text
    assert "not defined" in text
    alone = re.sub(r"\s+", " ", Page(render(replace(evaluation, contestants=evaluation.contestants[:1]))).text)
    assert "Figure Value Chance kNN accuracy 1.000 0.610 to 1.000 0.500 RankMe 153.2" in alone
    assert "Differences" not in alone


def test_curves_are_drawn_for_all_encoders_and_told_in_words(html: str) -> None:
    page = Page(html)
    [chart] = [svg for svg in page.all("svg") if svg.get("role") == "img"]
    assert chart["aria-label"].count("from 0.5 at 1 to 0.75 at 5") == 2
    assert len(page.all("polyline")) == 2
    assert all(
        line["points"].count(",") == 2 for line in page.all("polyline")
    )  # the point that is not a number is not there


def test_every_protocol_has_its_words() -> None:
    assert set(ABOUT) == {"knn", "linear", "linear --fast", "retrieval", "health"}


def test_a_report_without_labels_curves_or_examples_is_a_report(evaluation: Evaluation) -> None:
    bare = Outcome("health", (Figure("RankMe", 12.0),))
    contestant = replace(evaluation.contestants[0], outcome=bare)
    html = render(replace(evaluation, classes=None, skipped=(), stray=0, contestants=(contestant,)))
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", html)
    assert headings == ["mine", "Figures"]
    assert "pictures" not in html
    assert "could not be read" not in html


def test_a_report_replaces_an_older_one_and_nothing_else(evaluation: Evaluation, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(replace(evaluation, command="before"), path)
    write_report(replace(evaluation, command="after"), path)
    assert ">after<" in path.read_text(encoding="utf-8")
    assert ">before<" not in path.read_text(encoding="utf-8")
    other = tmp_path / "thesis.html"
    other.write_text("<!doctype html>my thesis")
    with pytest.raises(CannotReport, match=r"thesis\.html' is there"):
        write_report(evaluation, other)
    assert other.read_text() == "<!doctype html>my thesis"
    with pytest.raises(CannotReport, match="no file"):
        check_report_path(tmp_path)
    with pytest.raises(CannotReport, match="There is no folder"):
        check_report_path(tmp_path / "nowhere" / "report.html")
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(NotWritable, match="choose another folder"):
        write_report(evaluation, Path("/proc/report.html"))


def test_json_holds_all_figures_and_verdicts_and_never_nan(evaluation: Evaluation) -> None:
    told = json.loads(json.dumps(evaluation.as_dictionary(), allow_nan=False))
    assert (told["protocol"], told["photos"], told["classes"], told["stray"]) == ("knn", 6, 2, 2)
    assert [photo["reason"] for photo in told["skipped"]] == ["truncated"]
    mine, untrained = told["encoders"]
    assert mine["figures"]["kNN accuracy"] == {
        "value": 1.0,
        "interval": pytest.approx([0.610, 1.0], abs=1e-3),
        "chance": 0.5,
        "better": "higher",
    }
    other = untrained["figures"]["kNN accuracy"]
    assert (other["difference"], other["verdict"]) == (pytest.approx(-1 / 6), "tie")
    assert other["difference_interval"][0] < 0 < other["difference_interval"][1]
    assert mine["figures"]["loss"] == {"value": None, "interval": None, "chance": None, "better": "lower"}
    assert untrained["figures"]["RankMe"]["verdict"] is None
    assert mine["curves"][0]["y"] == [0.5, None, 0.75]
    assert mine["facts"] == {"k": 3, "scored": 6}
    assert mine["notices"] == ["Few <photos>."]


def test_outcomes_of_other_photos_are_not_compared(evaluation: Evaluation) -> None:
    fewer = replace(evaluation.contestants[1], outcome=outcome([1, 0]))
    with pytest.raises(Unscorable):
        render(replace(evaluation, contestants=(evaluation.contestants[0], fewer)))


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["light", "dark phone"])
def test_a_browser_shows_the_report_without_complaint_or_sideways_scrolling(
    browser: "Browser", evaluation: Evaluation, tmp_path: Path, kind: str
) -> None:
    write_report(evaluation, tmp_path / "report.html")
    context = browser.new_context(**OPTIONS[kind])
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((tmp_path / "report.html").as_uri())
    assert page.evaluate("[...document.images].every((image) => image.naturalWidth === 128)")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("getComputedStyle(document.querySelector('li.miss img')).borderTopStyle") == "dashed"
    assert serious_faults(page) == []
    context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [(tmp_path / "report.html").as_uri()]
