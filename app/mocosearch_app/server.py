"""Serve the page of a library on this machine until somebody stops it."""

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from mocosearch.errors import CannotServe
from mocosearch.library import Library
from mocosearch_app.api.routes import build_api
from mocosearch_app.page.blocks import build_page, mount_page
from mocosearch_app.safety.guard import Guard
from mocosearch_app.service.search import SearchService
from mocosearch_app.service.thumbnails import Thumbnails
from mocosearch_index.errors import MocosearchError

FIRST_PORT = 7860
_PORTS_TRIED = 100
_DRAIN_SECONDS = 10  # how long a client may take to send or fetch what it began before the server was told to stop
_CANCEL_SECONDS = 2  # later, what even then goes on is canceled, which uvicorn reports with a traceback
_LOOPBACK = ("127.0.0.1", "localhost")
_log = logging.getLogger(__name__)


def serve(
    library: Library,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until SIGTERM (then return) or SIGINT (then KeyboardInterrupt), answering what was asked before.

    Without `port` it is 7860 or the next free one. `on_ready` is given the address once the server answers.
    Raises CannotServe for a taken port and for an address that other machines can reach.
    """
    if host not in _LOOPBACK:
        raise CannotServe(f"The page has no password, so it is for this machine only: 127.0.0.1, not {host}.")
    with _listen(host, port) as listener:
        service = SearchService(library, Thumbnails.of_library(library.index.folder))
        address = f"http://{host}:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            build_app(service),
            access_log=False,
            lifespan="on",
            log_config=None,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_SECONDS + _CANCEL_SECONDS,
            ws="none",
        )
        server = _Server(config, lambda: on_ready(address))
        warm_up = threading.Thread(target=_load_encoder, args=(service,), name="encoder")
        warm_up.start()
        server.run(sockets=[listener])
        warm_up.join()
    if server.interrupted:
        raise KeyboardInterrupt


def build_app(service: SearchService) -> ASGIApp:
    """Put page and routes together behind the guard."""
    api, page = build_api(service), build_page(service)
    mount_page(api, page)
    functions = {number: len(function.inputs) for number, function in page.fns.items()}
    return Guard(api, functions, page._queue.pending_messages_per_session)


def _load_encoder(service: SearchService) -> None:
    """Load the encoder while the first photos are looked at. A damaged one stops nobody from browsing."""
    try:
        service.load_encoder()
    except MocosearchError as error:
        _log.warning("Searching by an uploaded picture will not work: %s", error)


class _Server(uvicorn.Server):
    """Uvicorn that tells when it is ready, and that does not raise a signal again once it has ended on it."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self.interrupted = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer."""
        await super().startup(sockets=sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what was asked before, but hang up on clients that take too long."""
        hanging_up = asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._hang_up)
        await super().shutdown(sockets=sockets)
        hanging_up.cancel()

    def _hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM meanwhile; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last: its terminal was closed
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second Ctrl-C does not wait for requests that are being answered."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.interrupted = sig == signal.SIGINT
        self.should_exit = True


def _listen(host: str, port: int | None) -> socket.socket:
    """Bind `port`, or the first free one from FIRST_PORT on."""
    for candidate in range(FIRST_PORT, FIRST_PORT + _PORTS_TRIED) if port is None else [port]:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno == errno.EACCES:
                raise CannotServe(f"Port {candidate} is kept for the system: choose one from 1024 on.") from error
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return listener
    if port is not None:
        raise CannotServe(f"Port {port} is taken: choose another, or leave --port out for the next free one.")
    last = FIRST_PORT + _PORTS_TRIED - 1
    raise CannotServe(f"All ports from {FIRST_PORT} to {last} are taken: choose another with --port.")
