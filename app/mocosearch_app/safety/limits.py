"""How much of this machine's memory uploads may take together, and who waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from mocosearch_app.safety.refusal import Refused


class Room:
    """Bytes of memory for what clients send. Who finds too few of them free waits in line, within bounds."""

    def __init__(self, size: int, *, line: int, patience: float) -> None:
        """Share out `size` bytes; up to `line` requests wait, each up to `patience` seconds."""
        self._free = size
        self._longest = line
        self._patience = patience
        self._waiting = 0
        self._first_in_line = asyncio.Lock()  # fair: it goes to those who wait in the order they came
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def take(self, amount: int) -> AsyncIterator[None]:
        """Hold `amount` bytes within. Raises Refused (503) when the line is too long or does not move."""
        if self._waiting >= self._longest:
            raise _busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience), self._first_in_line:
                while amount > self._free:
                    self._freed.clear()
                    await self._freed.wait()
                self._free -= amount
        except TimeoutError:
            raise _busy() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free += amount
            self._freed.set()


def _busy() -> Refused:
    reason = "many pictures are being searched with: try again in a moment"
    return Refused(HTTPStatus.SERVICE_UNAVAILABLE, reason, {"Retry-After": "5"})
