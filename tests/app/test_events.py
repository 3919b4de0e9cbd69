import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch_app.safety.events import Sessions, plain_event
from mocosearch_app.safety.refusal import Refused

EVENT = {"data": ["like=1 7"], "event_data": "like=1 7", "fn_index": 1, "trigger_id": 3, "session_hash": "qxeo4e"}
FUNCTIONS = {0: 0, 1: 1}
NESTED = st.recursive(
    st.none() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def accepts_body(body: bytes) -> bool:
    try:
        plain_event(body, FUNCTIONS)
    except Refused:
        return False
    return True


def accepts(**changes: Any) -> bool:
    return accepts_body(json.dumps({**EVENT, **changes}).encode())


def test_what_the_page_sends_is_let_through() -> None:
    session, event = plain_event(json.dumps(EVENT).encode(), FUNCTIONS)
    assert (session, json.loads(event)) == ("qxeo4e", {**EVENT, "event_data": None})
    assert accepts(data=[], fn_index=0)
    assert accepts(data=["x" * 2000])


@pytest.mark.parametrize(
    "changes", [{"fn_index": 2}, {"fn_index": -1}, {"fn_index": True}, {"data": []}, {"data": ["", ""]}]
)
def test_functions_the_page_has_not_and_other_numbers_of_values_are_refused(changes: dict[str, Any]) -> None:
    assert not accepts(**changes)


@pytest.mark.parametrize(
    "claim",
    [
        {"path": "http://127.0.0.1:1/secret", "meta": {"_type": "gradio.FileData"}},
        {"path": "/etc/passwd", "url": None, "meta": {"_type": "gradio.FileData"}},
        ["like=1 7"],
        {},
    ],
)
def test_data_that_could_claim_to_be_a_file_is_refused(claim: Any) -> None:
    assert not accepts(data=[claim])


@given(st.lists(NESTED, min_size=1), st.sampled_from(["event_data", "fn_index", "trigger_id", "session_hash"]))
def test_nothing_nested_gets_through_in_any_place(value: list[Any], place: str) -> None:
    assert not accepts(**{place: value})
    assert not accepts(data=[value])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'"data"',
        b"\xff\xfe",
        b"[" * 2000,
        b'{"fn_index": 1}',
        b'{"data": ["like=1 7"], "fn_index": 1}',
    ],
)
def test_what_is_no_event_is_refused(body: bytes) -> None:
    assert not accepts_body(body)


def test_long_texts_and_unknown_keys_are_refused() -> None:
    assert not accepts(data=["x" * 2001])
    assert not accepts(batched=True)
    assert not accepts(simple_format=True)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_gradio_reads_was_looked_at(encoding: str) -> None:
    claim = '{"data": [{"path": "/etc/passwd"}], "data": ["wall=é 1"], "fn_index": 1, "session_hash": "s"}'
    _, event = plain_event(claim.encode(encoding), FUNCTIONS)
    assert event == '{"data": ["wall=é 1"], "fn_index": 1, "session_hash": "s", "event_data": null}'.encode()


def test_a_session_that_fetches_no_answers_gets_no_more() -> None:
    sessions = Sessions()
    for _ in range(32):
        sessions.add("greedy")
    with pytest.raises(Refused, match="does not fetch"):
        sessions.add("greedy")
    sessions.add("other")
    sessions.fetched("greedy")
    sessions.add("greedy")


def test_the_sessions_that_asked_last_are_known() -> None:
    sessions = Sessions()
    for number in range(3000):
        sessions.add(str(number))
        sessions.add("busy")
        sessions.fetched("busy")
    sessions.discard("2999")
    assert "busy" in sessions
    assert "2998" in sessions
    assert "2999" not in sessions
    assert "0" not in sessions
