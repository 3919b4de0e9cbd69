"""Who asks: no page of another site, nobody who came under another name, and from which address."""

import re
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import Scope

from mocosearch_app.safety.listening import HOST, Address
from mocosearch_app.safety.refusal import Refused
from mocosearch_index.paths import printable

_HOST = re.compile(rf"({HOST})(:[0-9]{{1,5}})?")
_LINKED = frozenset({"/", "/login"})  # where a link on another site may lead


def check_sender(scope: Scope, address: Address) -> None:
    """Refuse requests that another web page makes, and those for a name that is not ours (DNS rebinding)."""
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    host = hosts[0].lower() if len(hosts) == 1 else ""
    match = _HOST.fullmatch(host)
    if match is None or not address.answers_to(match[1]):
        raise Refused(HTTPStatus.BAD_REQUEST, "this server answers under its own address only")
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):  # the latter: a TLS proxy's
        raise Refused(HTTPStatus.FORBIDDEN, "asked for by a page of another origin")
    site = headers.get("sec-fetch-site", "none")
    follows_link = scope["path"] in _LINKED and headers.get("sec-fetch-dest") == "document"
    if site not in ("same-origin", "none") and not follows_link:
        raise Refused(HTTPStatus.FORBIDDEN, "asked for by a page of another site")


def is_from_elsewhere(scope: Scope) -> bool:
    """Tell whether a link on another site led here: the browser then keeps our cookies back."""
    return Headers(scope=scope).get("sec-fetch-site", "none") not in ("same-origin", "none")


def client_of(scope: Scope, address: Address) -> str:
    """Return the address of the client, for a log line and for counting its wrong tries.

    Behind a proxy on this machine (it has a name of its own) that is what the proxy noted last.
    """
    client = str(scope["client"][0]) if scope.get("client") else "this machine"
    noted = Headers(scope=scope).getlist("x-forwarded-for")
    if address.is_local and address.own_names and noted:
        return printable(noted[-1].rpartition(",")[2].strip()[:45].encode())
    return client


def came_encrypted(scope: Scope) -> bool:
    """Tell whether the browser reached a proxy by https, as its own Origin, or else the proxy, says."""
    headers = Headers(scope=scope)
    return headers.get("origin", "").lower().startswith("https://") or headers.get("x-forwarded-proto") == "https"
