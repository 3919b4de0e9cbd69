"""Signing in and out: a page without any script, and a cookie that only the browser sees."""

from html import escape
from http import HTTPStatus
from importlib.resources import files
from string import Template
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from mocosearch_app.safety.access import SESSION_SECONDS, Access
from mocosearch_app.safety.refusal import Refused
from mocosearch_app.safety.sender import came_encrypted

MAX_BYTES = 4096  # of the form

# The form has no address of its own: it goes to the page's, with what stands behind `#`, which lasts to the photos.
_FORM = (
    '{why}<form method="post"><input type="text" name="username" value="mocosearch" autocomplete="username" hidden>'
    '<label>Password<input type="password" name="password" autocomplete="current-password" required autofocus></label>'
    "<button>Sign in</button></form>"
)
_SIGNED_IN = (
    '<p>You are signed in. <a href="/">To the photos</a></p>'
    '<form method="post" action="/logout"><button>Sign out</button></form>'
)
_REASONS = {
    HTTPStatus.UNAUTHORIZED: "This is not the password.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many wrong tries: wait {} seconds, then try again.",
}
# A link on another site led to the photos, so the browser kept the cookie back. It sends it along from our own page.
_FROM_HERE = '<!doctype html><title>mocosearch</title><script>location.replace("/login?back" + location.hash)</script>'


class Login:
    """The page at /login, and what its forms do."""

    def __init__(self, access: Access, cookie: str) -> None:
        """Keep the session in a cookie called `cookie`: one for every server of a machine, whatever its port."""
        self._access = access
        self._cookie = cookie
        self._page = Template((files("mocosearch_app") / "safety" / "login.html").read_text("utf-8"))

    def is_signed_in(self, scope: Scope) -> bool:
        """Tell whether the request comes with a session that goes on."""
        return self._access.is_signed_in(self._session(scope))

    def show(self, scope: Scope) -> Response:
        """Answer with the form, or who is signed in with the way out; or with the photos, if sent from there."""
        if scope["query_string"] == b"back" and self.is_signed_in(scope):
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        return self._answer(_SIGNED_IN if self.is_signed_in(scope) else _FORM.format(why=""))

    def sign_in(self, scope: Scope, form: bytes, client: str) -> Response:
        """Read the form and open the door. Raises Refused; `refusal` is the page for that."""
        password = dict(parse_qsl(form.decode("ascii", "replace"))).get("password", "")
        session = self._access.sign_in(password, client)
        answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            self._cookie,
            session,
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=came_encrypted(scope),
        )
        return answer

    def refusal(self, refusal: Refused) -> Response:
        """The form once more, with the reason."""
        headers = dict(refusal.headers or {})
        reason = _REASONS.get(refusal.status, str(refusal)).format(headers.get("Retry-After"))
        return self._answer(_FORM.format(why=f'<p role="alert">{escape(reason)}</p>'), refusal.status, headers)

    def sign_out(self, scope: Scope) -> Response:
        """End the session and show the form."""
        self._access.sign_out(self._session(scope))
        answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(self._cookie, httponly=True, samesite="strict", secure=came_encrypted(scope))
        return answer

    @staticmethod
    def ask_in(from_elsewhere: bool) -> Response:
        """Lead somebody who wants to see the photos to the form, if need be; what stands behind `#` is kept."""
        return HTMLResponse(_FROM_HERE) if from_elsewhere else RedirectResponse("/login", HTTPStatus.SEE_OTHER)

    def _answer(self, content: str, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Response:
        return HTMLResponse(self._page.substitute(content=content), status, headers)

    def _session(self, scope: Scope) -> str | None:
        return Request(scope).cookies.get(self._cookie)
