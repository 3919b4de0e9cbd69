"""The guard around a small application that answers everything: what reaches it and what does not."""

import asyncio
import base64
import hashlib
import json
import re
import socket
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from mocosearch_app.safety.guard import Guard
from mocosearch_app.safety.listening import Address

SCRIPT = 'window.x = {"a": 1};\n'
PAGE = f"<head><script>{SCRIPT}</script><script type='module' src='./x.js'></script></head>"
LOCAL = Address.of("127.0.0.1")
EVENT = {"data": ["like=1 7"], "event_data": None, "fn_index": 1, "session_hash": "abc"}


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what arrived: a page at /, else the request as JSON."""
    request = Request(scope, receive)
    if request.url.path == "/":
        response: Response = HTMLResponse(PAGE)
    else:
        seen = {
            "query": request.url.query,
            "scheme": request.url.scheme,
            "headers": dict(request.headers),
            "body": (await request.body()).decode(),
        }
        response = Response(json.dumps(seen), headers={"access-control-allow-origin": "*"})
    await response(scope, receive, send)


def ask(
    method: str, path: str, *, host: str = "127.0.0.1:7860", address: Address = LOCAL, **options: Any
) -> httpx.Response:
    async def request() -> httpx.Response:
        transport = httpx.ASGITransport(Guard(echo, {1: 1}, address))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client:
            options["headers"] = [("host", host), *options.get("headers", {}).items()]
            return await client.request(method, path, **options)

    return asyncio.run(request())


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "localhost:7860", "LOCALHOST", "[::1]:7860", "127.0.0.1"])
def test_the_names_of_this_machine_are_answered(host: str) -> None:
    assert ask("GET", "/healthz", host=host).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:7860", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example#localhost"),
        *("", "0.0.0.0:7860", "localhost@evil.example", "127.0.0.1:7860:80", "[::1", "localhost:99999999"),
    ],
)
def test_any_other_host_is_refused(host: str) -> None:
    assert ask("GET", "/", host=host).status_code == 400


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("192.168.1.20:7860", "[fe80::1]:7860", socket.gethostname(), "localhost")),
        *((host, 400) for host in ("evil.example", "192.168.1.20.evil.example", "1.2.3", "[evil]")),
    ],
)
def test_where_others_may_connect_ip_addresses_and_the_machines_name_are_answered(host: str, status: int) -> None:
    assert ask("GET", "/healthz", host=host, address=Address.of("0.0.0.0")).status_code == status


def test_a_name_that_was_given_is_answered_by_http_and_https() -> None:
    address = Address.of("127.0.0.1", ["Photos.example"])
    for scheme in ("http", "https"):
        own = {"origin": f"{scheme}://photos.example"}
        assert ask("POST", "/api/queries", host="photos.example", address=address, headers=own).status_code == 200
        assert ask("GET", "/", host="other.example", address=address, headers=own).status_code == 400


def test_a_request_of_two_lengths_is_refused_and_the_connection_closed() -> None:
    lengths = {"content-length": "0", "transfer-encoding": "chunked"}
    answer = ask("POST", "/api/queries", headers=lengths)
    assert (answer.status_code, answer.headers["connection"]) == (400, "close")


@pytest.mark.parametrize("second", ["evil.example", "127.0.0.1:7860"])
def test_two_hosts_in_one_request_are_refused(second: str) -> None:
    assert ask("GET", "/", headers={"host": second}).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1"},
        {"origin": "file://127.0.0.1:7860"},
        {"origin": "http://localhost:7860"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/api/queries"), ("GET", "/thumbnails/1-ab.webp")])
def test_requests_made_by_another_page_are_refused(method: str, path: str, headers: dict[str, str]) -> None:
    assert ask(method, path, headers=headers).status_code == 403


def test_the_page_itself_and_programs_without_an_origin_are_let_through() -> None:
    own = {"origin": "http://127.0.0.1:7860", "sec-fetch-site": "same-origin"}
    assert ask("POST", "/api/queries", headers=own).status_code == 200
    assert ask("POST", "/api/queries").status_code == 200


def test_a_link_from_elsewhere_may_open_the_page_and_nothing_else() -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert ask("GET", "/", headers=link).status_code == 200
    assert ask("GET", "/thumbnails/1-ab.webp", headers=link).status_code == 403
    assert ask("GET", "/", headers={**link, "sec-fetch-dest": "iframe"}).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/file=/etc/passwd",
        "/file=http://127.0.0.1:1/",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file%3D/etc/passwd",
        "/gradio_api/file/etc/passwd",
        "/gradio_api/proxy=http://127.0.0.1:1/",
        "/gradio_api/upload_progress",
        "/api/photos/../folders",
        "/api/photos/1%2f..%2f2",
        "/api/photos/-1",
        "/api/photos/1/original/../../../etc/passwd",
        "/api/photos/1/.mocosearch",
        "/api/photos/%31%00",
        "/api/photos/" + "1" * 20,
        "/api/photos/١",
        "/gradio_api/info",
        "/gradio_api/runs",
        "/gradio_api/deep_link",
        "/gradio_api/heartbeat/abc",
        "/gradio_api/stream/a/1/2/playlist.m3u8",
        "/config",
        "/monitoring",
        "/login/",
        "/login",
        "/svelte/x.js",
        "/docs",
        "/redoc",
        "//healthz",
        "/healthz/",
        "/HEALTHZ",
        "/assets/../healthz",
        "/assets/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..\\..\\etc\\passwd",
        "/thumbnails/..%2f..%2fcatalog.sqlite",
        "/thumbnails/../key.webp",
        "/thumbnails/1-ab.webp%00.png",
        "/page/..%2fpage.py",
        "/page/page.css/",
        "/%2e%2e/etc/passwd",
        "/.mocosearch/catalog.sqlite",
        "/" + "a" * 10_000,
    ],
)
def test_addresses_the_page_does_not_use_do_not_exist(path: str) -> None:
    async def request() -> int:  # as raw bytes: a client would tidy the path up
        status = 0

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        scope = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1:7860")],
        }
        await Guard(echo, {1: 1}, LOCAL)(scope, receive, send)
        return status

    assert asyncio.run(request()) == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *((method, "/healthz") for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")),
        *(("POST", f"/gradio_api/{name}") for name in ("upload", "run/look", "api/look", "call/look", "cancel")),
        ("GET", "/api/queries"),
        ("GET", "/gradio_api/queue/join"),
        ("POST", "/"),
        ("POST", "/login"),
        ("POST", "/logout"),
        ("DELETE", "/api/photos/1/original"),
        ("PUT", "/api/photos/1"),
    ],
)
def test_methods_the_page_does_not_use_do_not_exist(method: str, path: str) -> None:
    assert ask(method, path).status_code == 404


def test_a_plain_event_arrives_unchanged() -> None:
    answer = ask("POST", "/gradio_api/queue/join?", json=EVENT)
    assert json.loads(answer.json()["body"]) == EVENT


def test_an_event_with_a_file_in_it_and_one_without_end_are_refused() -> None:
    claim = {"path": "http://127.0.0.1:1/", "meta": {"_type": "gradio.FileData"}}
    assert ask("POST", "/gradio_api/queue/join", json={**EVENT, "data": [claim]}).status_code == 400
    assert ask("POST", "/gradio_api/queue/join", content=b" " * 30_000).status_code == 413


def test_only_a_session_that_asked_for_something_gets_results() -> None:
    async def requests() -> list[int]:
        transport = httpx.ASGITransport(Guard(echo, {1: 1}, LOCAL))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client:
            await client.post("/gradio_api/queue/join", json=EVENT)
            queries = ("?session_hash=abc", "?session_hash=x", "?session_hash=", "?session_hash=abc&session_hash=", "")
            return [(await client.get(f"/gradio_api/queue/data{query}")).status_code for query in queries]

    assert asyncio.run(requests()) == [200, 404, 404, 404, 404]


@pytest.mark.parametrize("hangs_up", [False, True])
def test_who_hangs_up_amid_the_results_has_to_ask_anew(hangs_up: bool) -> None:
    async def results(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["method"] == "POST" or not hangs_up:
            await send({"type": "http.response.body", "body": b"all of it"})
        assert (await receive())["type"] == ("http.request" if scope["method"] == "POST" else "http.disconnect")

    async def requests() -> list[int]:
        statuses: list[int] = []
        guard = Guard(results, {1: 1}, LOCAL)

        async def ask_directly(method: str, path: str, query: bytes, message: Any) -> None:
            async def send(answer: Any) -> None:
                if "status" in answer:
                    statuses.append(answer["status"])

            async def receive() -> Any:
                return message

            scope = {"type": "http", "method": method, "path": path, "query_string": query, "scheme": "http"}
            await guard({**scope, "headers": [(b"host", b"127.0.0.1")]}, receive, send)

        event = {"type": "http.request", "body": json.dumps(EVENT).encode()}
        await ask_directly("POST", "/gradio_api/queue/join", b"", event)
        for _ in range(2):
            await ask_directly("GET", "/gradio_api/queue/data", b"session_hash=abc", {"type": "http.disconnect"})
        return statuses

    assert asyncio.run(requests()) == [200, 200, 404 if hangs_up else 200]


def test_headers_that_claim_another_address_do_not_arrive() -> None:
    claims = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https", "forwarded": "host=evil.example"}
    seen = ask("GET", "/healthz", headers=claims).json()["headers"]
    assert not claims.keys() & seen.keys()


def test_every_answer_says_how_it_may_be_used() -> None:
    for answer in (ask("GET", "/"), ask("GET", "/healthz"), ask("GET", "/nowhere"), ask("GET", "/", host="evil")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-eval" not in policy


def test_only_the_inline_scripts_of_the_page_may_run() -> None:
    policy = ask("GET", "/").headers["content-security-policy"]
    match = re.search(r"script-src ([^;]*)", policy)
    assert match
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert match[1].split() == ["'self'", f"'sha256-{digest}'"]


def test_whole_files_of_the_library_may_do_nothing_in_a_browser() -> None:
    policy = ask("GET", "/api/photos/7/original").headers["content-security-policy"]
    assert policy.endswith("sandbox")
    assert "script" not in policy


def test_the_page_is_made_for_https_when_a_proxy_says_so() -> None:
    assert ask("GET", "/healthz", headers={"x-forwarded-proto": "https"}).json()["scheme"] == "https"
    assert ask("GET", "/healthz", headers={"x-forwarded-proto": "gopher"}).json()["scheme"] == "http"


def test_a_refusal_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    ask("GET", "/file=http://evil%0Aexample/" + "x" * 1000, headers={"origin": "http://127.0.0.1:7860"})
    (record,) = caplog.records
    assert record.getMessage().startswith("Refused GET /file=")
    assert "\n" not in record.getMessage()
    assert len(record.getMessage()) < 300
