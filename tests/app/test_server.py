"""`mocosearch serve`, attacked and used over HTTP."""

import http.server
import io
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from PIL import Image
from serving import ENVIRONMENT, Serving, serving

from mocosearch_app.api.routes import MAX_UPLOAD


def png_bomb() -> bytes:
    """A PNG of a few bytes that claims to be 100,000 x 100,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    packed = zlib.compress(bytes(1_000_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def raw(server: Serving, request: bytes) -> bytes:
    """Send bytes as they are and return what comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def thumbnails(view: str) -> list[str]:
    return re.findall(r'src="(/thumbnails/[^"]+)"', view)


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


# ---- use


def test_the_page_names_the_library_and_loads_nothing_from_elsewhere(server: Serving, indexed: Path) -> None:
    with server.client() as client:
        answer = client.get("/")
    assert answer.status_code == 200
    assert f"{indexed.name} · mocosearch" in answer.text
    loaded = re.findall(r'<(?:script|link|img|iframe)[^>]*?\b(?:src|href)="([^"]+)"', answer.text)
    assert loaded
    assert not [address for address in loaded if "//" in address]


def test_the_theme_uses_fonts_of_the_system(server: Serving) -> None:
    with server.client() as client:
        style = client.get("/theme.css").text
    assert "system-ui" in style
    assert not re.search(r"url\(\W?(https?:)?//|@import", style)
    assert "@font-face" not in style


def test_upload_look_and_thumbnails_work_together(server: Serving, indexed: Path) -> None:
    tile = next(indexed.glob("Forest/*.jpg"))
    view = server.look(server.upload(tile.read_bytes()))
    assert view.index(tile.name) < view.index('class="folder"')
    names = thumbnails(view)
    assert len(names) == 60
    with server.client() as client:
        for name in names[:5]:
            answer = client.get(name)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "image/webp")
            assert Image.open(io.BytesIO(answer.content)).format == "WEBP"


def test_no_upload_is_left_on_the_disk(own_library: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with serving(own_library, tmp_path, environment={"TMPDIR": str(temporary)}) as server:
        server.look(server.upload((own_library / "tall.png").read_bytes()))
        server.look("wall=1")
        assert list(temporary.glob("mocosearch-*"))
        assert [path for path in temporary.rglob("*") if path.is_file()] == []
        assert server.stop() == 0
    assert not list(temporary.glob("mocosearch-*"))


# ---- attacks


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
    answer = raw(server, f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert b"root:" not in answer
    assert b"import " not in answer.partition(b"<script")[0]
    status = answer.split(b" ", 2)[1]
    assert status in ((b"200",) if target.startswith("/?") else (b"404", b"400", b"414"))


@pytest.mark.parametrize("route", ["/file={}", "/gradio_api/file={}/x.png", "/proxy={}", "/gradio_api/proxy={}/x"])
def test_the_server_fetches_nothing_for_anybody(server: Serving, canary: tuple[str, list[str]], route: str) -> None:
    address, asked = canary
    with server.client() as client:
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


@pytest.mark.parametrize(
    "look",
    [
        *("", "like=999999", "like=1' or 1=1", "like=u" + "0" * 32, "wall=9999999", "../../etc/passwd"),
        *(None, 7, True),
    ],
)
def test_a_forged_look_gets_words_and_no_photo(server: Serving, look: object) -> None:
    view = server.look(look)
    assert "Nothing to show" in view
    assert not thumbnails(view)


@pytest.mark.parametrize(
    "changes",
    [
        *({"fn_index": function} for function in (-1, 0, 5, 99, "look", 1.5, None)),
        *({"data": data} for data in ([], ["wall=1", "wall=2"], None, "wall=1", {"0": "wall=1"})),
        *({"session_hash": session} for session in (None, 1, ["x"], "x" * 3000)),
        *({key: {"a": "b"}} for key in ("event_data", "trigger_id", "request", "batched")),
    ],
    ids=str,
)
def test_a_forged_event_is_refused(server: Serving, changes: dict[str, object]) -> None:
    event = {"data": ["wall=1"], "fn_index": 1, "session_hash": "forged", **changes}
    with server.client() as client:
        assert client.post("/gradio_api/queue/join", json=event).status_code == 400


def test_another_host_or_origin_gets_nothing(server: Serving) -> None:
    with server.client() as client:
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
    assert b" 413 " in raw(server, announced).partition(b"\r\n")[0]
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
def test_what_is_no_picture_is_refused_in_one_sentence(server: Serving, data: bytes) -> None:
    with server.client() as client:
        answer = client.post("/api/queries", content=data)
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


# ---- changes meanwhile, and the end


def test_a_photo_deleted_while_serving_is_shown_as_gone(own_library: Path, tmp_path: Path) -> None:
    with serving(own_library, tmp_path) as server:
        look = server.upload((own_library / "tall.png").read_bytes())
        (own_library / "tall.png").unlink()
        view = server.look(look)
        assert "gone from the folder" in view
        assert "tall.png" in view


def test_photos_indexed_while_serving_show_up(
    make_library: Callable[[Path], None], indexed: Path, tmp_path: Path
) -> None:
    root = tmp_path / "growing"
    root.mkdir()
    make_library(root)
    with serving(root, tmp_path) as server:
        assert "still empty" in server.look("wall=1")
        shutil.copy(indexed / "tall.png", root)
        subprocess.run([sys.executable, "-m", "mocosearch", "index", str(root)], env=ENVIRONMENT, check=True)
        assert "1 photo<" in server.look("wall=2")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_server_cleanly_with_clients_connected(
    indexed: Path, tmp_path: Path, number: int, status: int
) -> None:
    with serving(indexed, tmp_path) as server:
        with server.client() as client:  # its connection is kept alive
            assert client.get("/healthz").status_code == 200
            assert server.stop(number) == status
        words = server.log.read_text()
    assert "Traceback" not in words
    assert "Error" not in words


def test_an_upload_that_is_under_way_when_the_server_is_told_to_stop_is_answered(indexed: Path, tmp_path: Path) -> None:
    picture = (indexed / "tall.png").read_bytes()
    head = f"POST /api/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(picture)}\r\n\r\n"
    with serving(indexed, tmp_path) as server:
        server.upload(picture)  # when this is answered, the encoder is loaded
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(head.encode() + picture[:10])
            with server.client() as client:
                client.get("/healthz")  # when this is answered, the upload has begun
            server.process.terminate()
            time.sleep(0.5)
            connection.sendall(picture[10:])
            assert b" 201 " in connection.recv(65536).partition(b"\r\n")[0]
        assert server.process.wait(30) == 0


def test_uploads_that_never_end_delay_the_stop_by_the_drain_and_leave_no_traceback(
    indexed: Path, tmp_path: Path
) -> None:
    with serving(indexed, tmp_path) as server, ExitStack() as stack:
        for _ in range(3):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            stack.enter_context(connection)
            connection.sendall(b"POST /api/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\nabc")
        with server.client() as client:
            client.get("/healthz")  # when this is answered, the uploads have begun
        assert server.stop() == 0
        words = server.log.read_text()
    assert "Traceback" not in words
    assert "Error" not in words


def test_a_taken_port_is_one_clear_line(server: Serving, indexed: Path) -> None:
    command = [sys.executable, "-m", "mocosearch", "serve", str(indexed), "--port", str(server.port)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(f"Port {server.port} is taken")


def test_without_a_port_the_next_free_one_is_taken(server: Serving, indexed: Path, tmp_path: Path) -> None:
    with serving(indexed, tmp_path) as second:
        assert second.port > 7859
        assert second.port != server.port


def test_the_server_looks_up_no_name_and_connects_to_nobody(indexed: Path, tmp_path: Path) -> None:
    watch = tmp_path / "watch"
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(
        "import os, sys\n"
        "def hook(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo', 'socket.gethostbyname', 'socket.sendto'):\n"
        f"        with open({str(tmp_path / 'calls')!r}, 'a') as file:\n"
        "            file.write(f'{event} {arguments[-1] if event == \"socket.connect\" else arguments}\\n')\n"
        "sys.addaudithook(hook)\n"
    )
    with serving(indexed, tmp_path, environment={"PYTHONPATH": os.pathsep.join([str(watch)])}) as server:
        server.look(server.upload((indexed / "tall.png").read_bytes()))
        time.sleep(1)
        assert server.stop() == 0
    calls = (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    assert [call for call in calls if "127.0.0.1" not in call] == []
