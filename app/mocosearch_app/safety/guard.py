"""The door of the server: who may ask, for what, and what a browser may do with the answer.

Gradio brings some sixty routes, among them ones that serve files by path and fetch addresses for a client.
The page needs seven of them; all others answer 404 here.
"""

import base64
import hashlib
import logging
import re
from collections.abc import Collection, Container, Mapping
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mocosearch_app.safety.events import MAX_BYTES, is_plain_event
from mocosearch_index.paths import printable

_log = logging.getLogger(__name__)

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(\[[0-9a-f:]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?", re.IGNORECASE)

_EVENT = "/gradio_api/queue/join"
_RESULTS = "/gradio_api/queue/data"
_READ = re.compile(
    r"/|/healthz|/favicon\.ico|/theme\.css|/manifest\.json|/page/[a-z]+\.[a-z]+"
    r"|/(assets|static/js|static/img|static/fonts)/[\w@-]+(\.[\w@-]+)*"
    r"|/thumbnails/[0-9a-f-]+\.webp|/uploads/[0-9a-f]+\.webp"
    rf"|{_RESULTS}|/gradio_api/app_id",
    re.ASCII,
)
_WRITE = re.compile(rf"/api/queries|{_EVENT}", re.ASCII)
# Nobody stands before this server who could know better under which address it is reached.
_DROPPED = frozenset({b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"forwarded"})

_SCRIPT = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)
_POLICY = (
    "default-src 'none'; script-src 'self'{scripts}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'self'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_FOREVER = "private, max-age=31536000, immutable"  # for Gradio's files: a hash of each is in its name


class Refused(Exception):
    """A request that must not reach the application."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        functions: Mapping[int, int],
        sessions: Container[str],
        names: Collection[str] = LOOPBACK_NAMES,
    ) -> None:
        """Let requests through that are addressed to one of `names` (Host header, without port).

        `functions`: what events may call, and with how many values (see `is_plain_event`).
        `sessions`: those that wait for results, at any time; for others Gradio would fail amid its answer.
        """
        self._app = app
        self._functions = functions
        self._sessions = sessions
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with one line in the log."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._answer(scope, receive, _Answer(send, scope["path"]))

    async def _answer(self, scope: Scope, receive: Receive, send: "_Answer") -> None:
        try:
            _check_sender(scope, self._names)
            _check_address(scope)
            if scope["path"] == _EVENT:
                receive = await _checked_event(receive, self._functions)
            if scope["path"] == _RESULTS:
                _check_session(scope, self._sessions)
        except Refused as refusal:
            where = printable(scope.get("raw_path") or scope["path"].encode())[:200]
            _log.warning("Refused %s %s: %s", scope["method"], where, refusal)
            response = JSONResponse({"detail": str(refusal)}, refusal.status)
            await response(scope, receive, send)
            return
        await self._app(_without_detours(scope), receive, send)


def _check_sender(scope: Scope, names: Collection[str]) -> None:
    """Refuse requests that another web page makes, and those for a name that is not ours (DNS rebinding)."""
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if match is None or match[1].lower() not in names:
        raise Refused(HTTPStatus.BAD_REQUEST, "this server answers under its own address only")
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"{scope['scheme']}://{hosts[0].lower()}":
        raise Refused(HTTPStatus.FORBIDDEN, "asked for by a page of another origin")
    site = headers.get("sec-fetch-site", "none")
    follows_link = scope["path"] == "/" and headers.get("sec-fetch-dest") == "document"
    if site not in ("same-origin", "none") and not follows_link:
        raise Refused(HTTPStatus.FORBIDDEN, "asked for by a page of another site")


def _check_address(scope: Scope) -> None:
    """Refuse every address and method that the page does not use."""
    method, path = scope["method"], scope["path"]
    if method in ("GET", "HEAD") and _READ.fullmatch(path):
        return
    if method == "POST" and _WRITE.fullmatch(path):
        return
    raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")


def _check_session(scope: Scope, sessions: Container[str]) -> None:
    if QueryParams(scope["query_string"]).get("session_hash") not in sessions:
        raise Refused(HTTPStatus.NOT_FOUND, "this session waits for no results")


async def _checked_event(receive: Receive, functions: Mapping[int, int]) -> Receive:
    """Read the body of an event, refuse what the page would not send, and hand it on."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(HTTPStatus.BAD_REQUEST, "the event was cut off")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BYTES:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the event is too large")
    if not is_plain_event(body, functions):
        raise Refused(HTTPStatus.BAD_REQUEST, "the page sends no such event")
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _without_detours(scope: Scope) -> Scope:
    """Drop headers that claim another address; for the page, also the query (deep links) and compression."""
    dropped = _DROPPED
    if scope["path"] == "/":
        dropped = _DROPPED | {b"accept-encoding"}
        scope = {**scope, "query_string": b""}
    return {**scope, "headers": [pair for pair in scope["headers"] if pair[0] not in dropped]}


class _Answer:
    """Sends an answer with the headers that say how it may be used.

    The page has inline scripts of Gradio's: it is held back until it is complete and their hashes are known.
    """

    def __init__(self, send: Send, path: str) -> None:
        self._send = send
        self._with_page = path == "/"
        self._caching = _FOREVER if path.startswith("/assets/") else "no-store"
        self._start: Message = {}
        self._body = b""

    async def __call__(self, message: Message) -> None:
        """Send `message` on, or keep it until the page is complete."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message["headers"]))
            headers.update(_HEADERS)
            known = message["status"] == HTTPStatus.OK
            headers.setdefault("Cache-Control", self._caching if known else "no-store")
            for name in [name for name in headers if name.startswith("access-control-")]:
                del headers[name]
            self._start = {**message, "headers": headers.raw}
            if not self._with_page:
                await self._send_start(b"")
                return
        elif not self._with_page:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_start(self._body)
                await self._send({"type": "http.response.body", "body": self._body})

    async def _send_start(self, page: bytes) -> None:
        scripts = "".join(f" '{_hash(script)}'" for script in _SCRIPT.findall(page))
        policy = _POLICY.format(scripts=scripts)
        header = (b"content-security-policy", policy.encode())
        await self._send({**self._start, "headers": [*self._start["headers"], header]})


def _hash(script: bytes) -> str:
    digest = hashlib.sha256(script.replace(b"\r\n", b"\n")).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
