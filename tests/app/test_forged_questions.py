"""Looks, events and filters that no page and no sensible program asks for, at a running `mocosearch serve`."""

import json
from urllib.parse import urlencode

import pytest
from serving import Serving, thumbnails

TRICKS = [
    "' OR 1=1 --",
    "Forest' UNION SELECT path FROM photos --",
    "%",
    "_orest",
    "*",
    "Fores?",
    "[F]orest",
    "{Forest,River}",
    "Forest/../Forest",
    "../own",
    "/etc",
    "Forest\x00",
    "Forest\n",
    "\u202eForest",
    "F" * 10_000,
]


@pytest.mark.parametrize(
    "look",
    ["", "like=999999", "like=1' or 1=1", "like=u" + "0" * 32, "wall=9999999", "../../etc/passwd"],
)
def test_a_forged_look_gets_words_and_no_photo(server: Serving, look: str) -> None:
    view = server.look(look)
    assert "Nothing to show" in view
    assert not thumbnails(view)


@pytest.mark.parametrize(
    "changes",
    [
        *({"fn_index": function} for function in (-1, 0, 5, 99, "look", 1.5, None)),
        *(
            {"data": data}
            for data in ([], ["wall=1", "wall=2"], None, "wall=1", {"0": "wall=1"}, [None], [7], [1e999], ["\ud800"])
        ),
        *({"session_hash": session} for session in (None, 1, ["x"], "", "\ud800", "\0", "x" * 65)),
        *({"trigger_id": number} for number in ("2", 1.5, float("nan"), 2**31)),
        *({key: {"a": "b"}} for key in ("event_data", "trigger_id", "request", "batched")),
    ],
    ids=str,
)
def test_a_forged_event_is_refused(server: Serving, changes: dict[str, object]) -> None:
    event = {"data": ["wall=1"], "fn_index": 1, "session_hash": "forged", **changes}
    with server.client() as client, server.noted():
        assert client.post("/gradio_api/queue/join", content=json.dumps(event)).status_code == 400


@pytest.mark.parametrize("trick", TRICKS)
def test_no_filter_reaches_a_database_or_a_folder(server: Serving, trick: str) -> None:
    look = urlencode({"like": "1", "folder": trick})
    if len(look) < 2000:
        assert not thumbnails(server.look(look).partition('class="grid"')[2])
    with server.client() as client:
        for path in ("/api/photos/1/similar", "/api/search"):
            method = "POST" if path == "/api/search" else "GET"
            answer = client.request(method, path, params={"folder": trick}, content=b"x" if method == "POST" else None)
            assert 400 <= answer.status_code < 500, answer.text
            assert len(answer.json()["detail"]) < 12_000


@pytest.mark.parametrize(
    "query",
    [
        *({"k": k} for k in ("-1", "0", "1e9", "1' OR 1=1", "9" * 400)),
        *({"min_score": score} for score in ("nan", "inf", "1; DROP TABLE photos", "1" * 400)),
        *({"since": date} for date in ("'", "0000-00", "9999-99-99", "2024-13", "2024" * 99)),
        *({"crop": crop} for crop in ("0,0,0,0", "-1,-1,9,9", "a,b,c,d", "1e400,0,1,1", "0," * 999)),
        *({"like": like} for like in ("u" + "0" * 32, "../1", "1@0,0,0,0", "9" * 30)),
    ],
    ids=lambda query: str(query)[:40],
)
def test_a_question_that_makes_no_sense_is_refused(server: Serving, query: dict[str, str]) -> None:
    with server.client() as client, server.noted():
        answer = client.get("/api/photos/1/similar", params=query)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["detail"]


@pytest.mark.parametrize("event", ["look", "next", "photo", "act"])
@pytest.mark.parametrize(
    "text",
    ["", "/etc/passwd 1", "wall=1 -1 1", "like=1 99999999999 1", "-1 wall=1 1", "rm 1", "x" * 2000, "\x00 \x00 1"],
)
def test_no_event_does_what_no_button_asks_for(server: Serving, event: str, text: str) -> None:
    functions = {"look": 1, "next": 2, "photo": 3, "act": 4}
    assert not thumbnails(server.event(functions[event], text))


def test_answers_that_nobody_fetches_do_not_fill_the_memory(server: Serving) -> None:
    event = {"data": ["x 1"], "fn_index": 1, "session_hash": "unread"}
    with server.client() as client:
        statuses = [client.post("/gradio_api/queue/join", json=event).status_code for _ in range(40)]
        assert statuses == [200] * 32 + [429] * 8
        with client.stream("GET", "/gradio_api/queue/data?session_hash=unread") as stream:
            assert sum('"process_completed"' in line for line in stream.iter_lines()) == 32
        assert client.post("/gradio_api/queue/join", json=event).status_code == 200
