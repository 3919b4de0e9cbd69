"""Serve the page of a library until somebody stops it."""

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from mocosearch.errors import CannotServe
from mocosearch.library import Library
from mocosearch_app.api.routes import build_api
from mocosearch_app.page.blocks import build_page, mount_page
from mocosearch_app.safety.access import Access
from mocosearch_app.safety.connections import PatientConnection
from mocosearch_app.safety.guard import Guard
from mocosearch_app.safety.listening import Address, listen
from mocosearch_app.service.pictures.thumbnails import Thumbnails
from mocosearch_app.service.search import SearchService
from mocosearch_index.errors import MocosearchError

_AT_ONCE = 512  # connections, a request each at most; to more, the server says that it is busy
_DRAIN_SECONDS = 10  # how long a client may take to send or fetch what it began before the server was told to stop
_CANCEL_SECONDS = 2  # later, what even then goes on is canceled, which uvicorn reports with a traceback
_LOOK_SECONDS = 0.1  # between two looks whether somebody asked for something
_QUIET_LOOKS = 20  # without anything new: the first photos are on the page
_LOOKS = 200
_TICKS = 10  # of uvicorn's, between two looks at the connections: a second
_ENCRYPT = "Passwords and photos travel to and from %s unencrypted: docs/serving.md shows how a proxy changes that."
_log = logging.getLogger(__name__)


def serve(
    library: Library,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    names: Iterable[str] = (),
    password: str | None = None,
    token: str | None = None,
    insecure: bool = False,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until SIGTERM (then return) or SIGINT (then KeyboardInterrupt), answering what was asked before.

    `host`: an IP address of this machine; without `port` it is 7860 or the next free one. `names`: how else people
    reach it, through a proxy. `password`, `token`: either opens everything; `insecure`: neither is needed, though
    others can connect. `on_ready` is given the address once the server answers. Raises CannotServe.
    """
    address, access = Address.of(host, names), Access.of(password, token)
    if address.reached_at and access is None and not insecure:
        raise CannotServe(
            f"Other machines can reach {address.reached_at}: set a password with --password or MOCOSEARCH_PASSWORD, "
            "or say --insecure if all of them may see the photos."
        )
    if address.reached_at and access is None:
        _log.warning("Everybody who can reach %s sees the photos.", address.reached_at)
    elif not address.is_local:
        _log.warning(_ENCRYPT, host)
    with listen(address, port) as listener:
        service = SearchService(library, Thumbnails.of_library(library.index.folder))
        bound: int = listener.getsockname()[1]
        config = uvicorn.Config(
            build_app(service, address, access, cookie=f"mocosearch-{bound}"),
            access_log=False,
            http=PatientConnection,
            lifespan="on",
            limit_concurrency=_AT_ONCE,
            log_config=None,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_SECONDS + _CANCEL_SECONDS,
            ws="none",
        )
        server = _Server(config, lambda: on_ready(address.url(bound)))
        warm_up = threading.Thread(target=_load_encoder, args=(service, server), name="encoder")
        warm_up.start()
        with closing(service):
            server.run(sockets=[listener])
            warm_up.join()
    if server.interrupted:
        raise KeyboardInterrupt


def build_app(service: SearchService, address: Address, access: Access | None, cookie: str) -> ASGIApp:
    """Put page and routes together behind the guard."""
    api, page = build_api(service), build_page(service, closed=access is not None)
    mount_page(api, page)
    functions = {number: len(function.inputs) for number, function in page.fns.items()}
    return Guard(api, functions, address, access, cookie)


def _load_encoder(service: SearchService, server: "_Server") -> None:
    """Load the encoder while the first photos are looked at. A damaged one stops nobody from browsing."""
    server.wait_for_quiet()  # it takes seconds, which the first photos would have to wait
    if server.should_exit:
        return
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

    def wait_for_quiet(self) -> None:
        """Wait until what was asked first has been answered, but not for long; for another thread."""
        asked = looks = 0
        for _ in range(_LOOKS):
            time.sleep(_LOOK_SECONDS)
            before, asked = asked, self.server_state.total_requests
            looks = looks + 1 if asked == before else 0
            if self.should_exit or (asked and looks == _QUIET_LOOKS):
                return

    async def on_tick(self, counter: int) -> bool:
        """Look after the connections from time to time."""
        if counter % _TICKS == 0:
            for connection in list(self.server_state.connections):
                if isinstance(connection, PatientConnection):
                    connection.check()
        return await super().on_tick(counter)

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
