"""What a stranger, or a page of his, might try on a running `mocosearch serve`: refused in one line, and endured."""

import http.server
import io
import shutil
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from serving import Serving, serving

from mocosearch_app.api.routes import MAX_UPLOAD


def png_bomb() -> bytes:
    """A PNG of a few bytes that claims to be 100,000 x 100,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    packed = zlib.compress(bytes(1_000_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def canary() -> Iterator[tuple[str, list[str]]]:
    """A web server that no request should ever reach: its address and what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{web.server_port}", asked
    web.shutdown()
    web.server_close()


@pytest.mark.parametrize(
    "target",
    [
        "/thumbnails/../../../../etc/passwd",
        "/thumbnails/..%2f..%2f..%2fetc%2fpasswd.webp",
        "/thumbnails/%2e%2e%2fkey.webp",
        "/thumbnails/1-0.webp",
        "/uploads/..%2f..%2fetc%2fpasswd.webp",
        "/assets/..%2f..%2f..%2f..%2froutes.py",
        "/assets/....//....//routes.py",
        "/static/js/..%5c..%5croutes.py",
        "/page/..%2fpage.py",
        "/page/%2fetc%2fpasswd",
        "/previews/..%2f..%2fkey.webp",
        "/previews/1-0.webp",
        "/api/photos/..%2f..%2fetc%2fpasswd",
        "/api/photos/1%2f..%2f..%2fetc/original",
        "/api/photos/%2e%2e/%2e%2e/etc/passwd/original",
        "/api/photos/-1/original",
        "/api/photos/9223372036854775807/original",
        "/api/photos/9223372036854775808/original",
        "/api/photos/1/..%5c..%5coriginal",
        "/api/duplicates.csv%00/etc/passwd",
        "/api/folders/..%2f..%2fetc",
        "/file=/etc/passwd",
        "/file/etc/passwd",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file=..%2f..%2fetc%2fpasswd",
        "/gradio_api/file%3d/etc/passwd",
        "/gradio_api//file=/etc/passwd",
        "http://127.0.0.1/gradio_api/file=/etc/passwd",
        "//gradio_api/file=/etc/passwd",
        "/?deep_link=../../etc/passwd&x=/etc/passwd",
        "/" + "%2e%2e/" * 3000 + "etc/passwd",
    ],
)
def test_no_address_leads_to_a_file(server: Serving, target: str) -> None:
    is_page = target.startswith("/?")
    with server.noted(lines=0 if is_page else 1):
        answer = server.raw(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert b"root:" not in answer
    assert b"import " not in answer.partition(b"<script")[0]
    status = answer.split(b" ", 2)[1]
    assert status in ((b"200",) if is_page else (b"404", b"400", b"422", b"431"))


@pytest.mark.parametrize("route", ["/file={}", "/gradio_api/file={}/x.png", "/proxy={}", "/gradio_api/proxy={}/x"])
def test_the_server_fetches_nothing_for_anybody(server: Serving, canary: tuple[str, list[str]], route: str) -> None:
    address, asked = canary
    with server.client() as client, server.noted():
        assert client.get(route.format(address)).status_code == 404
    assert asked == []


def test_an_event_cannot_make_the_server_fetch_or_read(server: Serving, canary: tuple[str, list[str]]) -> None:
    address, asked = canary
    with server.client() as client:
        for path in (f"{address}/secret.png", "/etc/passwd"):
            claim = {"path": path, "url": path, "meta": {"_type": "gradio.FileData"}, "orig_name": "a.png"}
            event = {"data": [claim], "fn_index": 1, "session_hash": "attack"}
            for route in ("queue/join", "run/look", "api/look", "call/look", "predict"):
                assert client.post(f"/gradio_api/{route}", json=event).status_code in (400, 404)
    assert asked == []


def test_another_host_or_origin_gets_nothing(server: Serving) -> None:
    with server.client() as client, server.noted(lines=3):
        assert client.get("/", headers={"host": f"evil.example:{server.port}"}).status_code == 400
        answer = client.post("/api/queries", content=b"x", headers={"origin": "http://evil.example"})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
        preflight = {"origin": "http://evil.example", "access-control-request-method": "POST"}
        assert client.options("/gradio_api/queue/join", headers=preflight).status_code in (403, 404)


def test_a_proxy_header_does_not_change_the_page(server: Serving) -> None:
    claims = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https", "x-forwarded-prefix": "/evil"}
    with server.client() as client:
        assert "evil" not in client.get("/", headers=claims).text


def test_an_upload_that_is_too_large_is_refused_with_and_without_its_length(server: Serving) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(MAX_UPLOAD // (1 << 20) + 1):
            yield bytes(1 << 20)

    announced = (
        b"POST /api/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\n"
    )
    assert b" 413 " in server.raw(announced).partition(b"\r\n")[0]
    with server.client() as client:
        answer = client.post("/api/queries", content=endless())
    assert answer.status_code == 413
    assert "64 MB" in answer.json()["detail"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"just text",
        b"<html><script>alert(1)</script></html>",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"\xff\xd8\xff\xe0" + bytes(100),
        png_bomb(),
        b"%PDF-1.7",
    ],
    ids=["empty", "text", "html", "svg", "broken jpeg", "bomb", "pdf"],
)
@pytest.mark.parametrize("path", ["/api/queries", "/api/search"])
def test_what_is_no_picture_is_refused_in_one_sentence(server: Serving, path: str, data: bytes) -> None:
    with server.client() as client, server.noted():
        answer = client.post(path, content=data)
    assert answer.status_code == 422
    detail = answer.json()["detail"]
    assert detail.startswith("The picture cannot be used")
    assert detail.endswith(".")
    assert "\n" not in detail


def test_a_picture_with_a_page_inside_comes_back_as_a_mere_picture(server: Serving) -> None:
    gif = io.BytesIO()
    Image.new("RGB", (20, 10), "red").save(gif, "GIF", comment=b"<script>alert(1)</script>")
    look = server.upload(gif.getvalue() + b"<html><script>alert(2)</script></html>")
    with server.client() as client:
        answer = client.get(f"/uploads/{look.removeprefix('like=u')}.webp")
    assert answer.headers["content-type"] == "image/webp"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert b"script" not in answer.content


def test_an_upload_that_is_cut_off_leaves_no_trace(server: Serving) -> None:
    cut = b"POST /api/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nabc"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(cut)
    with server.client() as client:
        assert client.get("/healthz").status_code == 200
    assert "Traceback" not in server.log.read_text()


def test_a_library_named_like_a_script_stays_a_name(indexed: Path, tmp_path: Path) -> None:
    root = tmp_path / "x<script>alert(1)<" / "script><b>bold"
    shutil.copytree(indexed, root)
    with serving(root, tmp_path) as server, server.client() as client:
        page = client.get("/").text
        assert "<script>alert(1)" not in page
        assert "<b>bold" not in page
        assert "&lt;b&gt;bold" in server.look("like=999") or "Nothing to show" in server.look("like=999")


def test_every_refusal_is_one_line_in_the_log(server: Serving) -> None:
    before = len(server.log.read_text().splitlines())
    with server.client() as client:
        client.get("/file=/etc/passwd%0Aroot")
        assert client.get("/gradio_api/queue/data?session_hash=unknown").status_code == 404
    lines = server.log.read_text().splitlines()[before:]
    assert lines == [
        "Refused GET /file=/etc/passwd%0Aroot: there is nothing at this address",
        "Refused GET /gradio_api/queue/data: this session waits for no results",
    ]


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: 127.0.0.1",
        b"GET /healthz?" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: " + b"a" * 5000,
        b"GET /thumbnails/" + b"0" * 10_000 + b".webp HTTP/1.1\r\nHost: 127.0.0.1",
        b"GET / HTTP/1.1\r\nHost: " + b"a" * 10_000,
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://" + b"a" * 10_000,
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 20_000,
        b"POST /api/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + b"9" * 5000,
        b"POST /api/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1",
        b"A" * 10_000 + b" / HTTP/1.1\r\nHost: 127.0.0.1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["path", "query", "name", "host", "origin", "header", "length", "negative length", "method", "tls"],
)
def test_endless_names_and_nonsense_are_refused(server: Serving, request_: bytes) -> None:
    with server.noted():
        answer = server.raw(request_ + b"\r\nConnection: close\r\n\r\n")
    assert answer.split(b" ", 2)[1] in (b"400", b"403", b"404", b"413", b"431")
