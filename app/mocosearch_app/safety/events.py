"""What the page's events may carry. Gradio would fetch any address that an event says holds a file."""

import json
import re
from collections import OrderedDict
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from mocosearch_app.safety.refusal import Refused

_MAX_TEXT = 2000  # characters
MAX_BYTES = 12 * _MAX_TEXT + 1024  # as JSON, a character may take two escapes of six bytes
_KEYS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SESSIONS = 1000  # the latest; Gradio itself remembers 2,000
_UNFETCHED = 32  # answers that Gradio keeps for a session; a page has a few events under way
ANSWERED = b'"msg":"process_completed"'  # in what Gradio streams, once an event; quotes in an answer are escaped


def plain_event(body: bytes, functions: Mapping[int, int]) -> tuple[str, bytes]:
    """Return the session of an event of the page, and the event written anew: known keys, short texts and numbers.

    `functions`: the numbers of the page's functions, and how many values each is given. A dict among them could
    claim to be an uploaded file, with an address to fetch or a path on this machine. Raises Refused for all else.
    """
    try:
        event = json.loads(body)
        if isinstance(event, dict) and _is_plain_event(event, functions):
            # Gradio reads just what was looked at here: every key once, and no halves of characters.
            return event["session_hash"], json.dumps(event | {"event_data": None}, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        pass
    raise Refused(HTTPStatus.BAD_REQUEST, "the page sends no such event")


def _is_plain_event(event: dict[str, Any], functions: Mapping[int, int]) -> bool:
    data, function, session = (event.get(key) for key in ("data", "fn_index", "session_hash"))
    typed = event.get("event_data")  # browsers send the text that changed twice
    if not event.keys() <= _KEYS or not (typed is None or _is_text(typed)):
        return False
    if type(function) is not int or not isinstance(data, list) or functions.get(function) != len(data):
        return False
    if not isinstance(session, str) or not _SESSION.fullmatch(session):
        return False
    return _is_number(event.get("trigger_id", 0)) and all(map(_is_text, data))


def _is_number(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < 2**31)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_TEXT


class Sessions:
    """The sessions that sent an event and may fetch its results; the latest."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, int] = OrderedDict()  # with how many answers that were not fetched yet

    def __contains__(self, session: str) -> bool:
        return session in self._known

    def add(self, session: str) -> None:
        """Note that this session asks for something; Refused when it fetches no answers, which fill the memory."""
        unfetched = self._known.get(session, 0)
        if unfetched >= _UNFETCHED:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "this session does not fetch its results", {"Retry-After": "5"})
        self._known[session] = unfetched + 1
        self._known.move_to_end(session)
        if len(self._known) > _SESSIONS:
            self._known.popitem(last=False)

    def fetched(self, session: str) -> None:
        """Note that an answer was given to this session."""
        if session in self._known:
            self._known[session] = max(0, self._known[session] - 1)

    def discard(self, session: str) -> None:
        """Forget this session."""
        self._known.pop(session, None)
