"""Connections that do not wait for ever: for a request, for its body, or for its answer to be taken."""

import asyncio
import logging
import time
from dataclasses import dataclass

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_log = logging.getLogger(__name__)
_IDLE = "it did not finish the head of a request"
_LOOK = 1.0  # seconds that count at most between two looks: a server that was held up itself blames nobody for the rest


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client may keep a connection busy; seconds, bytes and bytes a second."""

    connections: int = 640  # at the same time; more are hung up on
    header: float = 10  # for all lines of a request up to its body
    body: float = 60  # for the whole body, while somebody reads it, at an even pace but for one `window`:
    window: float = 10  # memory is kept for what was announced. And of any body, in so many seconds,
    slowest: int = 4096  # `window * slowest` bytes must come
    unknown: int = 64 << 20  # bytes that a body is taken for whose length was not announced
    answer: float = 30  # for `step` bytes of the answer, or the rest of it
    step: int = 32 << 10


class PatientConnection(H11Protocol):
    """A connection of uvicorn's, looked at now and then by `check`."""

    patience = Patience()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, unless there are too many."""
        super().connection_made(transport)
        self._checked = time.monotonic()
        self._stage: tuple[object, ...] = ()
        self._in_stage = 0.0  # seconds of waiting for the client
        self._received = self._received_before = self._received_earlier = 0
        self._in_window = 0.0
        self._unsent = 0
        self._unmoved = 0.0
        if len(self.connections) > self.patience.connections:
            self._hang_up(f"there are {self.patience.connections} connections already")

    def data_received(self, data: bytes) -> None:
        """Count what comes in."""
        self._received += len(data)
        super().data_received(data)

    def resume_writing(self) -> None:
        """Note that an answer moves on."""
        self._unmoved = 0.0
        super().resume_writing()

    def check(self) -> None:
        """Hang up on a client that takes too long. To be called about every second."""
        now = time.monotonic()
        elapsed, self._checked = min(now - self._checked, _LOOK), now
        late = self._is_late_to_read(elapsed) or self._is_late_to_send(elapsed)
        if late == _IDLE and not self._received:  # browsers connect in advance
            self.transport.abort()
        elif late:
            self._hang_up(late)

    def _is_late_to_read(self, elapsed: float) -> str | None:
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent <= self._unsent - self.patience.step:
            self._unmoved, self._unsent = 0.0, unsent
            return None
        self._unsent = max(self._unsent, unsent)
        self._unmoved += elapsed
        return "it did not take its answer" if self._unmoved > self.patience.answer else None

    def _is_late_to_send(self, elapsed: float) -> str | None:
        stage = (self.conn.their_state, self.cycle)
        if stage != self._stage:
            self._stage, self._in_stage = stage, 0.0
            self._in_window, self._received_before = 0.0, self._received
            self._received_earlier = self._received
        if self.flow.read_paused or self.transport.get_write_buffer_size():  # it waits for the server, or reads
            return None
        self._in_stage += elapsed
        self._in_window += elapsed
        if self.conn.their_state is h11.IDLE and self._in_stage > self.patience.header:
            return _IDLE
        if self.conn.their_state is not h11.SEND_BODY:
            return None
        came = (self._received - self._received_earlier) / self._announced()
        if self._in_stage > self.patience.window + self.patience.body * came:
            return "its upload was too slow"
        if self._in_window > self.patience.window:
            few = self._received - self._received_before < self.patience.window * self.patience.slowest
            self._in_window, self._received_before = 0.0, self._received
            return "its upload was too slow" if few else None
        return None

    def _announced(self) -> int:
        lengths = [value for name, value in self.headers if name == b"content-length"]
        return max(1, int(lengths[0])) if lengths else self.patience.unknown

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing of a client that could do more than HTTP/1.1: the request is answered like any other."""

    def _hang_up(self, why: str) -> None:
        _log.warning("Hung up on %s: %s", self.client[0] if self.client else "a client", why)
        self.transport.abort()
