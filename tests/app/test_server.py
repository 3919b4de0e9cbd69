"""`mocosearch serve`, used over HTTP, while its library changes, and when it ends. See test_attacks.py as well."""

import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from PIL import Image
from serving import ENVIRONMENT, Serving, serving, thumbnails

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
