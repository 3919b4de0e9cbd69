"""A request that is turned away at the door."""

from collections.abc import Mapping
from http import HTTPStatus


class Refused(Exception):
    """A request that must not reach the application, and the answer to it: `reason` for a person, `headers`."""

    def __init__(self, status: HTTPStatus, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers
