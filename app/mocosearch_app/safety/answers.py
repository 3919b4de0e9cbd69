"""What a browser may do with an answer: headers on every one, and the inline scripts of the page by their hashes."""

import base64
import hashlib
import logging
import re
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Scope, Send

from mocosearch_index.paths import printable

_log = logging.getLogger(__name__)

_SCRIPT = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)
_POLICY = (
    "default-src 'none'; script-src 'self'{scripts}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_INERT = "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # not stricter: browsers would then hide their origin from our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_FOREVER = "private, max-age=31536000, immutable"  # for Gradio's files: a hash of each is in its name


class Answer:
    """Sends an answer with the headers that say how it may be used, and notes in the log what was refused.

    The page has inline scripts of Gradio's: it is held back until it is complete and their hashes are known.
    Whole files of the library are shown without any right to do something.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self._scope = scope
        path = scope["path"]
        self._with_page = path == "/"
        self._policy = _INERT if path.endswith("/original") else _POLICY
        self._caching = _FOREVER if path.startswith("/assets/") else "no-store"
        self._start: Message = {}
        self._body = b""
        self._is_noted = False
        self.status: int | None = None
        self.is_complete = False

    async def __call__(self, message: Message) -> None:
        """Send `message` on, or keep it until the page is complete."""
        if message["type"] == "http.response.start":
            self.status = status = HTTPStatus(message["status"])
            if 400 <= status < 500 and not self._is_noted:
                self.refused(status.phrase)
            headers = MutableHeaders(raw=list(message["headers"]))
            headers.update(_HEADERS)
            headers.setdefault("Cache-Control", self._caching if status == HTTPStatus.OK else "no-store")
            for name in [name for name in headers if name.startswith("access-control-")]:
                del headers[name]
            self._start = {**message, "headers": headers.raw}
            if not self._with_page:
                await self._send_start(b"")
            return
        self.is_complete = not message.get("more_body", False)
        if not self._with_page:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if self.is_complete:
            await self._send_start(self._body)
            await self._send({"type": "http.response.body", "body": self._body})

    async def _send_start(self, page: bytes) -> None:
        scripts = "".join(f" '{_hash(script)}'" for script in _SCRIPT.findall(page))
        policy = self._policy.format(scripts=scripts)
        header = (b"content-security-policy", policy.encode())
        await self._send({**self._start, "headers": [*self._start["headers"], header]})

    def refused(self, reason: object) -> None:
        """Note in the log, in one line, why this request was refused."""
        where = printable(self._scope.get("raw_path") or self._scope["path"].encode())[:200]
        _log.warning("Refused %.10s %s: %s", self._scope["method"], where, reason)
        self._is_noted = True


def _hash(script: bytes) -> str:
    digest = hashlib.sha256(script.replace(b"\r\n", b"\n")).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
