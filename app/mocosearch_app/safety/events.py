"""What the page's events may carry. Gradio would fetch any address that an event says holds a file."""

import json
from collections.abc import Mapping
from typing import Any

MAX_BYTES = 4096
_MAX_TEXT = 200
_KEYS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}


def is_plain_event(body: bytes, functions: Mapping[int, int]) -> bool:
    """Tell whether `body` is an event of the page: known keys with nothing but short texts and numbers.

    `functions`: the numbers of the page's functions, and how many values each is given. A dict among them could
    claim to be an uploaded file, with an address to fetch or a path on this machine.
    """
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(event, dict) or not event.keys() <= _KEYS:
        return False
    data, function = event.pop("data", None), event.get("fn_index")
    if type(function) is not int or not isinstance(data, list) or functions.get(function) != len(data):
        return False
    return isinstance(event.get("session_hash"), str) and all(map(_is_plain, [*data, *event.values()]))


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_TEXT
    return value is None or isinstance(value, bool | int | float)
