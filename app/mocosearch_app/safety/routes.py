"""What may be asked for at all.

Gradio brings some sixty routes, among them ones that serve files by path and fetch addresses for a client.
The page needs a few of them; all others answer 404.
"""

import re
from http import HTTPStatus

from starlette.types import Scope

from mocosearch_app.safety.refusal import Refused

EVENT = "/gradio_api/queue/join"
RESULTS = "/gradio_api/queue/data"
SIGNING = frozenset({"/login", "/logout"})
# What anybody may have where a password is set: nothing of it tells of the library.
OPEN = frozenset({"/healthz", "/favicon.ico", "/manifest.json", "/page/icon.svg"})
UPLOADS = frozenset({"/api/queries", "/api/search"})  # bodies are pictures

_LARGEST_HEAD = 16 << 10  # bytes
_READ = re.compile(
    r"/|/healthz|/openapi\.json|/favicon\.ico|/theme\.css|/manifest\.json|/page/[a-z_]+\.[a-z]+"
    r"|/(assets|static/js|static/img|static/fonts)/[\w@-]+(\.[\w@-]+)*"
    r"|/(thumbnails|previews)/[0-9a-f-]+\.webp|/uploads/[0-9a-f]+\.webp"
    r"|/api/folders|/api/duplicates\.csv|/api/photos/[0-9]{1,19}(/(similar|thumbnail|original))?"
    rf"|{RESULTS}|/gradio_api/app_id",
    re.ASCII,
)


def check_head(scope: Scope) -> None:
    """Refuse a head that no browser sends: too large, or with two lengths, of which a proxy may believe the other."""
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
        raise Refused(HTTPStatus.BAD_REQUEST, "the request has two lengths", {"Connection": "close"})
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    if size + sum(len(name) + len(value) for name, value in scope["headers"]) > _LARGEST_HEAD:
        raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too large")


def check_address(scope: Scope) -> None:
    """Refuse every address and method that neither the page nor a program uses."""
    method, path = scope["method"], scope["path"]
    if method in ("GET", "HEAD") and (_READ.fullmatch(path) or path == "/login"):
        return
    if method == "POST" and (path in UPLOADS or path in SIGNING or path == EVENT):
        return
    raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")
