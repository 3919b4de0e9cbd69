"""The HTTP interface for programs, and every example of docs/api.md."""

import csv
import io
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from serving import ENVIRONMENT, Serving, serving

from mocosearch.library import Library

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
TOKEN = "0123456789abcdef0123"


@pytest.fixture
def client(server: Serving) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def tall(indexed: Path) -> int:
    """The id of a photo."""
    with Library.open(indexed) as library:
        photo = library.index.photo_at(b"tall.png")
        assert photo is not None
        return photo.id


def photos(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["photos"]
    return found


def file_of(photo: dict[str, Any]) -> Path:
    return Path(os.fsdecode(unquote_to_bytes(urlsplit(photo["uri"]).path)))


# ---- searching


def test_a_picture_finds_itself_first_and_tells_all_of_it(client: httpx.Client, indexed: Path, tall: int) -> None:
    best, *others = photos(client.post("/api/search", content=(indexed / "tall.png").read_bytes()))
    assert len(others) == 9
    assert best["score"] == pytest.approx(1, abs=2e-3)
    assert (best["id"], best["path"], best["taken_at"]) == (tall, "tall.png", None)
    assert (best["width"], best["height"]) == (300, 900)
    assert file_of(best) == indexed / "tall.png"
    assert client.get(best["thumbnail"]).headers["content-type"] == "image/webp"


def test_a_picture_that_the_library_does_not_hold_is_embedded(client: httpx.Client, indexed: Path) -> None:
    copy = io.BytesIO()
    Image.open(indexed / "tall.png").save(copy, "WEBP", quality=90)
    best = photos(client.post("/api/search", content=copy.getvalue()))[0]
    assert best["path"] == "tall.png"
    assert 0.9 < best["score"] < 1


def test_neighbors_of_a_photo_are_what_the_library_finds(client: httpx.Client, indexed: Path, tall: int) -> None:
    found = photos(client.get(f"/api/photos/{tall}/similar", params={"k": 200}))
    with Library.open(indexed) as library:
        hits = library.search([tall], k=200)
    assert [(photo["id"], photo["score"]) for photo in found] == [
        (hit.photo.id, pytest.approx(hit.score, abs=1e-6)) for hit in hits
    ]
    assert len(found) == 61


def test_filters_hold_for_both_searches(client: httpx.Client, indexed: Path, tall: int) -> None:
    only = {"k": 50, "folder": "River"}
    by_photo = photos(client.get(f"/api/photos/{tall}/similar", params=only))
    by_picture = photos(client.post("/api/search", params=only, content=(indexed / "tall.png").read_bytes()))
    assert {Path(photo["path"]).parent.name for photo in (*by_photo, *by_picture)} == {"River"}
    assert len(by_photo) == len(by_picture) == 6
    least = by_photo[2]["score"] - 1e-6
    assert len(photos(client.get(f"/api/photos/{tall}/similar", params=only | {"min_score": least}))) == 3
    assert photos(client.get(f"/api/photos/{tall}/similar", params={"since": "2024", "until": "2024-05"})) == []


def test_further_photos_draw_a_search_toward_them_or_away(client: httpx.Client, tall: int) -> None:
    other = photos(client.get(f"/api/photos/{tall}/similar", params={"k": 200}))[-1]["id"]

    def place(name: str, **params: int) -> int:
        found = photos(client.get(f"/api/photos/{tall}/similar", params={"k": 200, **params}))
        assert other not in [photo["id"] for photo in found]
        return [photo["path"] for photo in found].index(name)

    beside_other = photos(client.get(f"/api/photos/{other}/similar", params={"k": 5}))
    name = next(photo["path"] for photo in beside_other if photo["id"] != tall)
    assert place(name, like=other) < place(name, unlike=other)


def test_a_crop_searches_with_a_part(client: httpx.Client, indexed: Path) -> None:
    picture = (indexed / "tall.png").read_bytes()
    by_percent = photos(client.post("/api/search", params={"crop": "0%,0%,50%,25%"}, content=picture))
    by_pixels = photos(client.post("/api/search", params={"crop": "0,0,150,225"}, content=picture))
    assert by_percent == by_pixels
    assert by_percent != photos(client.post("/api/search", content=picture))
    beyond = client.post("/api/search", params={"crop": "200,0,200,200"}, content=picture)
    assert beyond.status_code == 422
    assert "300 x 900" in beyond.json()["detail"]


# ---- photos


def test_facts_thumbnail_and_original_of_a_photo(client: httpx.Client, indexed: Path, tall: int) -> None:
    facts = client.get(f"/api/photos/{tall}").json()
    assert (facts["path"], facts["size"]) == ("tall.png", (indexed / "tall.png").stat().st_size)
    thumbnail = client.get(f"/api/photos/{tall}/thumbnail")
    assert thumbnail.content == client.get(facts["thumbnail"]).content
    assert Image.open(io.BytesIO(thumbnail.content)).size == (171, 512)
    assert Image.open(io.BytesIO(client.get(facts["preview"]).content)).size == (300, 900)
    original = client.get(facts["original"])
    assert original.content == (indexed / "tall.png").read_bytes()
    assert original.headers["content-type"] == "image/png"
    assert original.headers["content-disposition"].startswith('inline; filename="tall.png"')


def test_folders_are_those_that_the_filter_takes(client: httpx.Client, tall: int) -> None:
    for folder in client.get("/api/folders").json():
        found = photos(client.get(f"/api/photos/{tall}/similar", params={"folder": folder["folder"], "k": 200}))
        assert len(found) == folder["photos"]


def test_no_copies_are_told_before_somebody_looked_and_all_as_a_table_after(own_library: Path, tmp_path: Path) -> None:
    shutil.copy(own_library / "tall.png", own_library / "copy of tall.png")
    odd = os.fsencode(own_library) + b"/\xff\xfe.png"
    shutil.copy(own_library / "tall.png", odd)
    with Library.open(own_library, writable=True) as library:
        library.update()
        photo = library.index.photo_at(b"\xff\xfe.png")
        assert photo is not None
    with serving(own_library, tmp_path) as server, server.client() as client:
        early = client.get("/api/duplicates.csv")
        assert (early.status_code, "Duplicates" in early.json()["detail"]) == (404, True)
        server.event(4, "find-identical 1")  # as the page's button does
        table = _ready(client)
        facts = client.get(f"/api/photos/{photo.id}").json()
        file_of(facts).unlink()
        after = client.get(f"/api/photos/{photo.id}")
        gone = client.get(f"/api/photos/{photo.id}/original")
        assert server.stop() == 0
        log = server.log.read_text()
    rows = list(csv.DictReader(io.StringIO(table.content.decode("utf-8-sig", "surrogateescape"))))
    assert {os.fsencode(row["path"]) for row in rows} >= {odd}
    assert table.headers["content-type"].startswith("text/csv")
    assert facts["path"] == "\\xff\\xfe.png"
    assert (after.json()["thumbnail"], after.json()["original"]) == (None, None)
    assert gone.status_code == 404
    assert "Traceback" not in log
    assert "Error" not in log


def _ready(client: httpx.Client) -> httpx.Response:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        answer = client.get("/api/duplicates.csv")
        if answer.status_code == 200:
            return answer
        time.sleep(0.1)
    raise AssertionError("nothing was found")


# ---- what is refused


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("k=0", "k: "),
        ("k=201", "less than or equal to 200"),
        ("k=ten", "k: "),
        ("min_score=nan", "min_score: "),
        ("min_score=1.1", "min_score: "),
        ("since=2024-13", "since: '2024-13' is no date"),
        ("until=yesterday", "until: "),
        ("like=x", "like.0: "),
        ("like=-1", "like.0: "),
        ("unlike=9223372036854775808", "unlike.0: "),
        ("&".join(["like=1"] * 9), "like: "),
        ("min-score=0.5", "min-score: Extra inputs"),
        ("crop=1,2,3,4", "crop: Extra inputs"),
        ("folder=" + "x" * 5000, "folder: "),
    ],
)
def test_a_parameter_that_says_nothing_sensible_is_told_by_its_name(
    client: httpx.Client, tall: int, query: str, words: str
) -> None:
    answer = client.get(f"/api/photos/{tall}/similar?{query}")
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert len(answer.json()["detail"].splitlines()) == 1


@pytest.mark.parametrize("crop", ["1,2,3", "a,b,c,d", "-1,0,5,5", "nan,0,5,5", "1e999,0,5,5", "0,0,0,0"])
def test_a_crop_that_is_none_is_told(client: httpx.Client, indexed: Path, crop: str) -> None:
    picture = (indexed / "tall.png").read_bytes()
    assert client.post("/api/search", params={"crop": crop}, content=picture).status_code == 422


@pytest.mark.parametrize("body", [b"", b"text", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\xff\xd8\xff\xe0cut"])
def test_a_body_that_is_no_picture_is_told(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/api/search", content=body)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("The picture cannot be used")


@pytest.mark.parametrize("route", ["", "/similar", "/thumbnail", "/original"])
def test_a_photo_that_is_not_there_is_told(client: httpx.Client, route: str) -> None:
    for photo_id, status in ((999_999, 404), (2**63 - 1, 404), (2**63, 422)):
        answer = client.get(f"/api/photos/{photo_id}{route}")
        assert (answer.status_code, list(answer.json())) == (status, ["detail"])


@pytest.mark.parametrize("folder", ["nowhere", "%", "*", "..", "River/../River", "/etc", "x' OR 1=1 --", "\0"])
def test_a_folder_that_the_library_does_not_have_is_told(client: httpx.Client, tall: int, folder: str) -> None:
    answer = client.get(f"/api/photos/{tall}/similar", params={"folder": folder})
    assert answer.status_code == 404
    assert "no folder" in answer.json()["detail"]


@settings(max_examples=60, deadline=None)
@given(
    params=st.dictionaries(
        st.sampled_from(["k", "folder", "since", "until", "min_score", "like", "unlike", "crop", "other"]),
        st.text(max_size=30) | st.integers().map(str) | st.floats().map(str) | st.sampled_from(["", "River", "2024"]),
    )
)
def test_any_parameters_are_answered_or_told_to_be_wrong(server: Serving, params: dict[str, str]) -> None:
    answer = httpx.get(f"{server.address}/api/photos/1/similar", params=params, timeout=60, trust_env=False)
    assert answer.status_code in (200, 404, 422)
    assert set(answer.json()) in ({"photos", "milliseconds"}, {"detail"})


# ---- many, and at once


def test_many_clients_at_once_are_all_answered_and_alike(server: Serving, indexed: Path, tall: int) -> None:
    pictures = [path.read_bytes() for path in sorted(indexed.glob("*/*.jpg"))[:4]]
    copies = []
    for picture in pictures:
        copy = io.BytesIO()
        Image.open(io.BytesIO(picture)).save(copy, "PNG")  # another file, so that it has to be embedded
        copies.append(copy.getvalue())

    def ask(number: int) -> list[int]:
        with server.client() as client:
            if number % 2:
                answer = client.get(f"/api/photos/{tall}/similar")
            else:
                answer = client.post("/api/search", content=copies[number // 2 % 4])
            return [photo["id"] for photo in photos(answer)]

    alone = [ask(number) for number in range(8)]
    with ThreadPoolExecutor(32) as clients:
        together = list(clients.map(ask, range(64)))
    assert together == alone * 8


# ---- the document


def test_the_document_describes_every_route_with_its_errors_and_the_token(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {
        *("/api/search", "/api/folders", "/api/duplicates.csv", "/healthz"),
        *(f"/api/photos/{{id}}{route}" for route in ("", "/similar", "/thumbnail", "/original")),
        *("/thumbnails/{name}.webp", "/previews/{name}.webp"),
    }
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    for path, methods in document["paths"].items():
        for facts in methods.values():
            assert facts["description"]
            assert (facts.get("security") == [{"token": []}]) == (path != "/healthz")
            for status, answer in facts["responses"].items():
                schema = next(iter(answer["content"].values()))["schema"]
                assert status == "200" or schema == {"$ref": "#/components/schemas/Problem"}
            assert path == "/healthz" or {"400", "401", "403", "429", "431", "503"} <= set(facts["responses"])
    asked = document["paths"]["/api/search"]["post"]
    assert asked["operationId"] == "search"
    assert {each["name"] for each in asked["parameters"]} >= {"k", "folder", "since", "until", "min_score", "crop"}
    assert "requestBody" in asked
    assert "://" not in client.get("/openapi.json").text


def test_the_document_tells_what_dates_and_parts_look_like(client: httpx.Client, indexed: Path) -> None:
    asked = client.get("/openapi.json").json()["paths"]["/api/search"]["post"]["parameters"]
    pattern = {each["name"]: next(iter(each["schema"].get("anyOf", [{}]))).get("pattern") for each in asked}
    good = {
        "since": ["2024", "2024-05", "2024-05-31", "2024-05-31T18:30", "2024-05-31T18:30:59"],
        "crop": ["25%,25%,50%,50%", "10,20,60,60", "0.5,0,12.5%,100"],
    }
    bad = {"since": ["24", "2024-5", "2024-05-31 18:30", "2024-05-31T18", ""], "crop": ["1,2,3", "a,1,2,3", "-1,0,5,5"]}
    picture = (indexed / "tall.png").read_bytes()
    for texts, status in ((good, 200), (bad, 422)):
        for name, text in [(name, text) for name, several in texts.items() for text in several]:
            assert bool(re.search(pattern[name], text)) == (status == 200)
            assert client.post("/api/search", params={name: text}, content=picture).status_code == status


def test_a_head_that_is_too_large_is_told(client: httpx.Client) -> None:
    answer = client.get("/api/folders", headers={"X-Much": "x" * 17_000})
    assert (answer.status_code, list(answer.json())) == (431, ["detail"])


# ---- the page of examples


def test_every_example_of_the_page_runs(indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(indexed / "tall.png", tmp_path / "query.jpg")  # its content tells what it is
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOCOSEARCH_TOKEN", TOKEN)
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    namespace: dict[str, Any] = {}
    printed: list[str] = []
    with serving(indexed, tmp_path, environment={"MOCOSEARCH_TOKEN": TOKEN}) as server:
        with server.client() as client:
            assert client.get("/api/folders").status_code == 401
        for kind, block in blocks:
            here = block.replace("http://127.0.0.1:7860", server.address)
            if kind == "sh":
                done = subprocess.run(
                    ["sh", "-ec", here], capture_output=True, text=True, env={**ENVIRONMENT, **os.environ}
                )
                assert done.returncode == 0, done.stderr + done.stdout
                printed.append(done.stdout)
            else:
                exec(compile(here, str(PAGE), "exec"), namespace)
    assert len(blocks) == 6
    assert '"path":"tall.png"' in printed[0]
    assert Image.open(tmp_path / "thumbnail.webp").format == "WEBP"
    assert len([path for path in tmp_path.iterdir() if path.suffix in (".jpg", ".png")]) == 2
    assert namespace["file"] == indexed / "tall.png"
    assert namespace["answer"].status_code == 422
