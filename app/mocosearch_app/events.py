"""What the page's events may carry. Gradio would fetch any address that an event says holds a file."""

import json
from typing import Any

MAX_BYTES = 4096
_MAX_TEXT = 200
_KEYS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}


def is_plain_event(body: bytes) -> bool:
    """Tell whether `body` is an event of the page: known keys with nothing but short texts and numbers.

    A dict in the data can claim to be an uploaded file, with an address to fetch or a path on this machine.
    """
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(event, dict) or not event.keys() <= _KEYS or not isinstance(event.get("data"), list):
        return False
    values = [*event.pop("data"), *event.values()]
    return all(map(_is_plain, values))


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_TEXT
    return value is None or isinstance(value, bool | int | float)
