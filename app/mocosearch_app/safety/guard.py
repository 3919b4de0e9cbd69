"""The door of the server: every request passes here first, and goes on, is answered, or is refused in one line."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mocosearch_app.api.routes import MAX_UPLOAD
from mocosearch_app.safety import login
from mocosearch_app.safety.access import Access
from mocosearch_app.safety.answers import Answer
from mocosearch_app.safety.events import ANSWERED, MAX_BYTES, Sessions, plain_event
from mocosearch_app.safety.limits import Room
from mocosearch_app.safety.listening import Address
from mocosearch_app.safety.refusal import Refused
from mocosearch_app.safety.routes import EVENT, OPEN, RESULTS, SIGNING, UPLOADS, check_address, check_head
from mocosearch_app.safety.sender import came_encrypted, check_sender, client_of, is_from_elsewhere

_UPLOAD_BYTES = 256 << 20  # of memory for uploads that are received, decoded and embedded
_UPLOADS_WAITING = 64
_UPLOAD_PATIENCE = 30  # seconds
# What a proxy claims is heeded here, at the door, if at all.
_DROPPED = frozenset({b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"forwarded", b"x-gradio-server"})
_NO_SECRET = "sign in at /login, or send the token as `Authorization: Bearer TOKEN`"


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        functions: Mapping[int, int],
        address: Address,
        access: Access | None = None,
        cookie: str = "mocosearch",
    ) -> None:
        """Let requests through that are addressed to `address`, from those whom `access` lets in (None: everybody).

        `functions`: what events may call, and with how many values (see `plain_event`).
        """
        self._app = app
        self._functions = functions
        self._address = address
        self._access = access
        self._login = None if access is None else login.Login(access, cookie)
        self._sessions = Sessions()
        self._room = Room(_UPLOAD_BYTES, line=_UPLOADS_WAITING, patience=_UPLOAD_PATIENCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, answer it, or refuse it with one line in the log."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            answer = Answer(scope, send)
            try:
                await self._answer(scope, receive, answer)
            except Refused as refusal:
                answer.refused(refusal)
                await self._refusal(scope, refusal)(scope, receive, answer)

    async def _answer(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        path = scope["path"]
        check_head(scope)
        check_sender(scope, self._address)
        check_address(scope)
        response = await self._at_the_door(scope, receive)
        if response is not None:
            await response(scope, receive, answer)
        elif path == EVENT:
            session, event = plain_event(await _read(receive, MAX_BYTES), self._functions)
            self._sessions.add(session)
            await self._app(_tidied(scope), _replay(event, receive), answer)
            if answer.status != HTTPStatus.OK:  # the queue was full: there will be no result
                self._sessions.fetched(session)
        elif path == RESULTS:
            await self._results(scope, receive, answer)
        elif path in UPLOADS:
            async with self._room.take(_announced(scope)):
                await self._app(_tidied(scope), receive, answer)
        else:
            await self._app(_tidied(scope), receive, answer)

    async def _at_the_door(self, scope: Scope, receive: Receive) -> Response | None:
        """Answer those who are not let in yet, and those who want in or out; None for all others."""
        path, client = scope["path"], client_of(scope, self._address)
        if self._access is None or self._login is None:
            if path in SIGNING:
                raise Refused(HTTPStatus.NOT_FOUND, "there is no password to sign in with")
            return None
        if path == "/login":
            if scope["method"] == "POST":
                return self._login.sign_in(scope, await _read(receive, login.MAX_BYTES), client)
            return self._login.show(scope)
        if path == "/logout":
            return self._login.sign_out(scope)
        if path in OPEN or self._login.is_signed_in(scope):
            return None
        kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            self._access.check(token.strip().encode("latin-1").decode("utf-8", "replace"), client)  # as it was sent
            return None
        if path == "/":
            return self._login.ask_in(is_from_elsewhere(scope))
        raise Refused(HTTPStatus.UNAUTHORIZED, _NO_SECRET, {"WWW-Authenticate": "Bearer"})

    def _refusal(self, scope: Scope, refusal: Refused) -> Response:
        if self._login is not None and scope["path"] == "/login":
            return self._login.refusal(refusal)
        return JSONResponse({"detail": str(refusal)}, refusal.status, refusal.headers)

    async def _results(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        """Stream the results of a session that joined before; for others Gradio would fail amid its answer.

        Who hangs up amid them has to join anew, for then Gradio forgets the session.
        """
        session = QueryParams(scope["query_string"]).get("session_hash", "")
        if session not in self._sessions:
            raise Refused(HTTPStatus.NOT_FOUND, "this session waits for no results")

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and not answer.is_complete:
                self._sessions.discard(session)
            return message

        async def counted(message: Message) -> None:
            for _ in range(message.get("body", b"").count(ANSWERED)):
                self._sessions.fetched(session)
            await answer(message)

        await self._app(_tidied(scope), watched, counted)


async def _read(receive: Receive, limit: int) -> bytes:
    """Read a body that is short."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(HTTPStatus.BAD_REQUEST, "it was cut off")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "it is too large")
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give the application the body that was read here."""
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _announced(scope: Scope) -> int:
    """How many bytes an upload takes: what it says, up to the limit, for beyond that it is refused unread."""
    announced = Headers(scope=scope).get("content-length", "")
    return min(int(announced), MAX_UPLOAD) if announced.isdecimal() else MAX_UPLOAD


def _tidied(scope: Scope) -> Scope:
    """Drop headers that claim another address; for the page, also the query (deep links) and compression.

    Of what a proxy claims, that the browser came by https is used: the page has its own address in it.
    """
    dropped = _DROPPED
    if came_encrypted(scope):
        scope = {**scope, "scheme": "https"}
    if scope["path"] == "/":
        dropped = _DROPPED | {b"accept-encoding"}
        scope = {**scope, "query_string": b""}
    return {**scope, "headers": [pair for pair in scope["headers"] if pair[0] not in dropped]}
