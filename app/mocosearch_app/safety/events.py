"""What the page's events may carry. Gradio would fetch any address that an event says holds a file."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from mocosearch_app.safety.refusal import Refused

_MAX_TEXT = 2000  # characters
MAX_BYTES = 12 * _MAX_TEXT + 1024  # as JSON, a character may take two escapes of six bytes
_KEYS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}
_SESSIONS = 1000  # the latest; Gradio itself remembers 2,000


def session_of(body: bytes, functions: Mapping[int, int]) -> str:
    """Return the session of an event of the page: known keys with nothing but short texts and numbers.

    `functions`: the numbers of the page's functions, and how many values each is given. A dict among them could
    claim to be an uploaded file, with an address to fetch or a path on this machine. Raises Refused for all else.
    """
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        event = None
    session = event.get("session_hash") if isinstance(event, dict) else None
    if not isinstance(session, str) or not _is_plain_event(event, functions):
        raise Refused(HTTPStatus.BAD_REQUEST, "the page sends no such event")
    return session


def _is_plain_event(event: dict[str, Any], functions: Mapping[int, int]) -> bool:
    if not event.keys() <= _KEYS:
        return False
    data, function = event.pop("data", None), event.get("fn_index")
    if type(function) is not int or not isinstance(data, list) or functions.get(function) != len(data):
        return False
    return all(map(_is_plain, [*data, *event.values()]))


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_TEXT
    return value is None or isinstance(value, bool | int | float)


class Sessions:
    """The sessions that sent an event and may fetch its results; the latest."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, session: str) -> bool:
        return session in self._known

    def add(self, session: str) -> None:
        """Note that this session has asked for something."""
        self._known[session] = None
        self._known.move_to_end(session)
        if len(self._known) > _SESSIONS:
            self._known.popitem(last=False)

    def discard(self, session: str) -> None:
        """Forget this session."""
        self._known.pop(session, None)
