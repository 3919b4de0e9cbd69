"""Who is let in where a password or a token is set, and how long those who guess have to wait."""

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from math import ceil

from mocosearch.errors import CannotServe
from mocosearch_app.safety.refusal import Refused

SESSION_SECONDS = 7 * 24 * 3600  # from signing in
_SESSIONS = 1000  # the latest
_FREE_TRIES = 5  # wrong ones in a row before the first wait; each further one doubles it
_LONGEST_WAIT = 300.0  # seconds
_FORGIVEN_AFTER = 3600.0  # seconds without a wrong try
_CLIENTS = 10_000  # the latest that were wrong
_CROWD = 200  # wrong ones of all clients together before the first wait of those who were never right
_CROWD_PACE = 10.0  # seconds a try, from then on: 8,640 a day
_WELCOME = 1000  # the latest clients that were right
_SHORTEST_PASSWORD = 8
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,}")  # what the header can hold

Clock = Callable[[], float]


class Access:
    """The secrets that open the door, and who is signed in. Each secret opens everything.

    Only for use within the server's event loop, where nothing comes between a check and its note.
    """

    def __init__(self, accepted: Iterable[str], clock: Clock = time.monotonic) -> None:
        self._accepted = [_digest(secret) for secret in accepted]
        self._tries = _WrongTries(clock)
        self._sessions = _Sessions(clock)

    @classmethod
    def of(cls, password: str | None, token: str | None) -> "Access | None":
        """Take what a person chose; None for neither. Raises CannotServe for what could be guessed or not be sent."""
        if password is not None and len(password) < _SHORTEST_PASSWORD:
            raise CannotServe(f"The password is short: take {_SHORTEST_PASSWORD} characters or more.")
        if token is not None and not _TOKEN.fullmatch(token):
            raise CannotServe("The token takes 16 letters and digits or more: `openssl rand -hex 16` makes one.")
        given = [secret for secret in (password, token) if secret is not None]
        return cls(given) if given else None

    def check(self, secret: str, client: str) -> None:
        """Let `client` (its address) in with `secret`, or raise Refused: 401, or 429 after too many wrong ones."""
        wait = self._tries.seconds_to_wait(client)
        if wait > 0:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"too many wrong tries from {client}: wait {ceil(wait)} s",
                {"Retry-After": str(ceil(wait))},
            )
        given = _digest(secret)
        # All are compared, each in the same time whatever it is: how long this takes tells nothing.
        if not sum(hmac.compare_digest(given, accepted) for accepted in self._accepted):
            self._tries.note(client)
            reason = f"wrong password or token from {client}"
            raise Refused(HTTPStatus.UNAUTHORIZED, reason, {"WWW-Authenticate": "Bearer"})
        self._tries.forgive(client)

    def sign_in(self, secret: str, client: str) -> str:
        """Check as `check` does, and return the name of a new session, which nobody can guess."""
        self.check(secret, client)
        return self._sessions.begin()

    def is_signed_in(self, session: str | None) -> bool:
        """Tell whether `session` is one that goes on."""
        return session is not None and self._sessions.goes_on(session)

    def sign_out(self, session: str | None) -> None:
        """End a session."""
        if session is not None:
            self._sessions.end(session)


class _WrongTries:
    """How often in a row each client was wrong, and how often all of them were lately.

    Who guesses from thousands of addresses has few tries from each. Those who were right before do not wait for that.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()  # client: (times, when last)
        self._welcome: OrderedDict[str, None] = OrderedDict()
        self._crowd_until = clock()  # when all tries together will have been slow enough

    def seconds_to_wait(self, client: str) -> float:
        """Seconds before `client` may try again, 0 or less for now."""
        times, last = self._of(client)
        crowd = 0 if _network(client) in self._welcome else self._crowd_until - _CROWD * _CROWD_PACE - self._clock()
        if times < _FREE_TRIES:
            return crowd
        return max(crowd, last + min(2.0 ** (times - _FREE_TRIES), _LONGEST_WAIT) - self._clock())

    def note(self, client: str) -> None:
        """Count one more."""
        times, _ = self._of(client)
        self._crowd_until = max(self._crowd_until, self._clock()) + _CROWD_PACE
        self._wrong[_network(client)] = times + 1, self._clock()
        self._wrong.move_to_end(_network(client))
        if len(self._wrong) > _CLIENTS:
            self._wrong.popitem(last=False)

    def forgive(self, client: str) -> None:
        """Count from 0 again."""
        self._wrong.pop(_network(client), None)
        self._welcome[_network(client)] = None
        self._welcome.move_to_end(_network(client))
        if len(self._welcome) > _WELCOME:
            self._welcome.popitem(last=False)

    def _of(self, client: str) -> tuple[int, float]:
        times, last = self._wrong.get(_network(client), (0, 0.0))
        return (0, 0.0) if self._clock() - last > _FORGIVEN_AFTER else (times, last)


class _Sessions:
    """Those who signed in, by a digest of the session's name: what is in memory opens no door."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()

    def begin(self) -> str:
        name = secrets.token_urlsafe(32)
        self._ends[_digest(name)] = self._clock() + SESSION_SECONDS
        if len(self._ends) > _SESSIONS:
            self._ends.popitem(last=False)
        return name

    def goes_on(self, name: str) -> bool:
        return self._clock() < self._ends.get(_digest(name), float("-inf"))

    def end(self, name: str) -> None:
        self._ends.pop(_digest(name), None)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _network(client: str) -> str:
    """What is counted as one client: an IPv4 address, or the /64 that a provider gives to one household."""
    try:
        address = ip_address(client)
    except ValueError:
        return client
    if not isinstance(address, IPv6Address):
        return client
    return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))
