"""Who is let in, with a clock that the test turns."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch.errors import CannotServe
from mocosearch_app.safety.access import SESSION_SECONDS, Access
from mocosearch_app.safety.refusal import Refused

PASSWORD = "crème brûlée"
TOKEN = "0123456789abcdef"
HOME = "192.168.1.20"


class Clock:
    """Shows what it was set to, in seconds."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(clock: Clock) -> Access:
    return Access([PASSWORD, TOKEN], clock)


def status(check: Callable[[], object]) -> int:
    try:
        check()
    except Refused as refusal:
        return int(refusal.status)
    return 200


def wrong(access: Access, times: int, client: str = HOME) -> list[int]:
    return [status(lambda: access.check("wrong", client)) for _ in range(times)]


@pytest.mark.parametrize("secret", [PASSWORD, TOKEN])
def test_each_secret_opens(access: Access, secret: str) -> None:
    access.check(secret, HOME)
    assert access.is_signed_in(access.sign_in(secret, HOME))


@given(st.text().filter(lambda text: text not in (PASSWORD, TOKEN)))
def test_nothing_else_opens(secret: str) -> None:
    assert status(lambda: Access([PASSWORD, TOKEN]).check(secret, HOME)) == 401


def test_who_is_wrong_again_and_again_waits_longer_and_longer(access: Access, clock: Clock) -> None:
    assert wrong(access, 5) == [401] * 5
    waits = []
    for _ in range(12):
        with pytest.raises(Refused) as refused:
            access.check(PASSWORD, HOME)  # the right one would not be looked at now
        assert refused.value.status == 429
        assert refused.value.headers
        waits.append(int(refused.value.headers["Retry-After"]))
        clock.now += waits[-1]
        assert wrong(access, 1) == [401]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_others_do_not_wait_and_the_right_one_forgives(access: Access, clock: Clock) -> None:
    assert wrong(access, 6) == [401] * 5 + [429]
    assert wrong(access, 1, "192.168.1.21") == [401]
    clock.now += 1
    access.check(PASSWORD, HOME)
    assert wrong(access, 5) == [401] * 5


def test_wrong_tries_are_forgotten_after_an_hour(access: Access, clock: Clock) -> None:
    wrong(access, 5)
    clock.now += 3601
    assert wrong(access, 5) == [401] * 5


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
    ],
)
def test_a_household_counts_as_one_client(access: Access, first: str, second: str, same: bool) -> None:
    wrong(access, 5, first)
    assert wrong(access, 1, second) == [429 if same else 401]


def test_guessing_from_thousands_of_addresses_is_slow_and_does_not_lock_out_who_was_right(
    access: Access, clock: Clock
) -> None:
    access.check(PASSWORD, HOME)
    assert [wrong(access, 1, f"2001:db8:{number:x}::1") for number in range(202)] == [[401]] * 201 + [[429]]
    assert status(lambda: access.check(PASSWORD, HOME)) == 200
    clock.now += 100
    assert [wrong(access, 1, f"2001:db8:1:{number:x}::1")[0] for number in range(20)].count(401) == 10


def test_a_million_clients_do_not_fill_the_memory(access: Access, clock: Clock) -> None:
    for number in range(20_000):
        wrong(access, 1, f"client {number}")
        clock.now += 10
    assert len(access._tries._wrong) <= 10_000
    assert wrong(access, 5, "client 19999") == [401] * 4 + [429]


def test_a_session_ends_with_its_week_and_when_signed_out(access: Access, clock: Clock) -> None:
    first, second = access.sign_in(PASSWORD, HOME), access.sign_in(PASSWORD, HOME)
    assert first != second
    access.sign_out(first)
    assert not access.is_signed_in(first)
    clock.now += SESSION_SECONDS - 1
    assert access.is_signed_in(second)
    clock.now += 1
    assert not access.is_signed_in(second)


def test_the_latest_thousand_sessions_go_on(access: Access) -> None:
    sessions = [access.sign_in(TOKEN, HOME) for _ in range(1001)]
    assert [access.is_signed_in(session) for session in (sessions[0], sessions[1], sessions[-1])] == [False, True, True]


@pytest.mark.parametrize("session", [None, "", "x", "é\ud800"])
def test_no_session_is_none(access: Access, session: str | None) -> None:
    assert not access.is_signed_in(session)


@pytest.mark.parametrize(
    ("password", "token"), [("1234567", None), ("", None), (None, "short"), (None, "a b" * 9), (None, "é" * 16)]
)
def test_secrets_that_are_easily_guessed_or_no_header_can_hold_are_refused(
    password: str | None, token: str | None
) -> None:
    with pytest.raises(CannotServe):
        Access.of(password, token)


@pytest.mark.parametrize("token", [TOKEN, "-._~+/" * 3 + "=="])
def test_a_token_is_what_a_header_can_hold(token: str) -> None:
    access = Access.of(None, token)
    assert access
    access.check(token, HOME)


def test_without_a_secret_there_is_no_door() -> None:
    assert Access.of(None, None) is None
