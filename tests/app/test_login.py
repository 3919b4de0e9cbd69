"""The door with a password, around a small application: who gets in, by which way, and what a cookie is like."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest
from starlette.responses import Response

from mocosearch_app.safety.access import Access
from mocosearch_app.safety.guard import Guard
from mocosearch_app.safety.listening import Address

PASSWORD = "crème & brûlée+"
TOKEN = "0123456789abcdef"
LOCAL = Address.of("127.0.0.1")
PROXIED = Address.of("127.0.0.1", ["photos.example"])

Talk = Callable[[httpx.AsyncClient], Awaitable[None]]


def talk(conversation: Talk, address: Address = LOCAL, base: str = "http://127.0.0.1:7860") -> None:
    """Hold a conversation with a door that PASSWORD and TOKEN open; behind it everything is answered with 200."""

    async def run() -> None:
        door = Guard(Response("inside"), {1: 1}, address, Access([PASSWORD, TOKEN]), "mocosearch-7860")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(door), base_url=base) as client:
            await conversation(client)

    asyncio.run(run())


async def sign_in(client: httpx.AsyncClient, password: str = PASSWORD, **headers: str) -> httpx.Response:
    return await client.post("/login", data={"username": "mocosearch", "password": password}, headers=headers)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in ("/thumbnails/1-ab.webp", "/api/photos/1", "/api/photos/1/original", "/theme.css")),
        *(("GET", path) for path in ("/openapi.json", "/api/folders", "/page/page.js", "/gradio_api/queue/data")),
        *(("POST", path) for path in ("/api/search", "/api/queries", "/gradio_api/queue/join")),
    ],
)
def test_without_a_secret_nothing_is_given_or_done(method: str, path: str) -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        answer = await client.request(method, path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "inside" not in answer.text
        assert "/login" in answer.json()["detail"]

    talk(conversation)


def test_health_and_the_picture_of_the_program_are_open() -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        for path in ("/healthz", "/favicon.ico", "/page/icon.svg", "/manifest.json"):
            assert (await client.get(path)).text == "inside"

    talk(conversation)


def test_the_page_leads_to_the_form_and_the_form_to_the_page() -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        answer = await client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        form = await client.get("/login")
        assert 'type="password"' in form.text
        assert "<script" not in form.text
        answer = await sign_in(client)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert (await client.get("/")).text == "inside"
        assert (await client.get("/api/photos/1")).text == "inside"

    talk(conversation)


def test_signing_out_ends_the_session_and_not_only_the_cookie() -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        await sign_in(client)
        cookies = dict(client.cookies)
        assert "Sign out" in (await client.get("/login")).text
        assert (await client.post("/logout")).headers["location"] == "/login"
        assert not client.cookies
        client.cookies.update(cookies)
        assert (await client.get("/api/photos/1")).status_code == 401

    talk(conversation)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_scripts_never_see_the_cookie_and_it_travels_as_it_came(scheme: str) -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        answer = await sign_in(client, origin=f"{scheme}://photos.example")
        name, *attributes = answer.headers["set-cookie"].lower().split("; ")
        assert name.startswith("mocosearch-7860=")
        assert len(name) > 50
        assert {"httponly", "samesite=strict", "path=/"} <= set(attributes)
        assert ("secure" in attributes) == (scheme == "https")

    talk(conversation, PROXIED, "http://photos.example")


def test_a_link_on_another_site_asks_once_more_from_here_and_finds_the_photos() -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}

    async def conversation(client: httpx.AsyncClient) -> None:
        answer = await client.get("/", headers=link)
        assert 'location.replace("/login?back"' in answer.text
        assert "sha256-" in answer.headers["content-security-policy"]
        assert 'type="password"' in (await client.get("/login?back")).text
        await sign_in(client)
        assert (await client.get("/login?back")).headers["location"] == "/"

    talk(conversation)


@pytest.mark.parametrize("secret", [TOKEN, PASSWORD])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_program_sends_either_secret_along(secret: str, scheme: str) -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        header = {"authorization": f"{scheme} {secret}".encode()}
        assert (await client.get("/api/photos/1", headers=header)).text == "inside"

    talk(conversation)


@pytest.mark.parametrize(
    "header", [f"Basic {TOKEN}", TOKEN, "Bearer", f"Bearer x{TOKEN}", f"Bearer {TOKEN[:-1]}", "Bearer \xff\xfe"]
)
def test_any_other_header_opens_nothing(header: str) -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        answer = await client.get("/api/photos/1", headers={"authorization": header.encode("latin-1")})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"

    talk(conversation)


@pytest.mark.parametrize("cookie", ["", "x", "mocosearch-7860=", "mocosearch-7860=x", "mocosearch-7860=\xff", "=" * 9])
def test_an_invented_cookie_opens_nothing(cookie: str) -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        answer = await client.get("/api/photos/1", headers={"cookie": cookie.encode("latin-1")})
        assert answer.status_code == 401

    talk(conversation)


@pytest.mark.parametrize(
    ("form", "status"),
    [(b"", 401), (b"password=", 401), (b"\xff\xfe=%ff", 401), (b"a=1&" * 900, 401), (b"x" * 5000, 413)],
)
def test_a_form_that_says_nothing_or_too_much_opens_nothing(form: bytes, status: int) -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        answer = await client.post("/login", content=form)
        assert answer.status_code == status
        assert not client.cookies
        assert 'role="alert"' in answer.text

    talk(conversation)


def test_a_form_on_another_site_signs_nobody_in_or_out() -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        for path in ("/login", "/logout"):
            answer = await client.post(path, data={"password": PASSWORD}, headers={"origin": "http://evil.example"})
            assert answer.status_code == 403
            assert not client.cookies

    talk(conversation)


def test_guessing_by_form_and_by_header_counts_together_and_is_told_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        guess = {"authorization": "Bearer guess"}
        statuses = [(await sign_in(client, "guess")).status_code for _ in range(3)]
        statuses += [(await client.get("/api/photos/1", headers=guess)).status_code for _ in range(2)]
        assert statuses == [401] * 5
        for answer in (await sign_in(client), await client.get("/api/photos/1", headers=guess)):
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) == 1

    talk(conversation)
    assert len(caplog.messages) == 7
    assert all(message.startswith("Refused ") and "\n" not in message for message in caplog.messages)
    assert not any("guess" in message or PASSWORD in message for message in caplog.messages)


def test_behind_a_proxy_each_of_its_clients_waits_alone() -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        for number in range(6):
            answer = await sign_in(client, "guess", **{"x-forwarded-for": f"10.9.9.{number}, 203.0.113.5"})
        assert answer.status_code == 429
        assert (await sign_in(client, **{"x-forwarded-for": "203.0.113.6"})).status_code == 303

    talk(conversation, PROXIED, "http://photos.example")


def test_without_a_proxy_nobody_gets_new_tries_by_claiming_another_address() -> None:
    async def conversation(client: httpx.AsyncClient) -> None:
        for number in range(6):
            answer = await sign_in(client, "guess", **{"x-forwarded-for": f"203.0.113.{number}"})
        assert answer.status_code == 429

    talk(conversation)
