"""Passwords, many clients at once, slow ones, and another library's pictures, at a running `mocosearch serve`."""

import contextlib
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serving import Serving, serving, thumbnails

PASSWORD = "correct horse"
TOKEN = "0123456789abcdef"


def test_pictures_of_another_library_are_not_given(server: Serving, own_library: Path, tmp_path: Path) -> None:
    shutil.rmtree(own_library / ".mocosearch" / "thumbnails", ignore_errors=True)  # its key is its own then
    names = thumbnails(server.look("wall=1"))[:3]
    with serving(own_library, tmp_path) as other, other.client() as client:
        assert thumbnails(other.look("wall=1"))
        for name in names:
            for kind in ("thumbnails", "previews"):
                with other.noted():
                    assert client.get(name.replace("thumbnails", kind)).status_code == 404


def test_thirty_two_clients_with_pictures_at_once_are_all_answered(server: Serving, indexed: Path) -> None:
    picture = next(indexed.glob("Forest/*.jpg")).read_bytes()
    with ThreadPoolExecutor(32) as pool:
        assert len({*pool.map(server.upload, [picture] * 64)}) == 64


@pytest.fixture(scope="module")
def closed(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The page of the indexed photos behind a password."""
    secrets = {"MOCOSEARCH_PASSWORD": PASSWORD, "MOCOSEARCH_TOKEN": TOKEN}
    with serving(indexed, tmp_path_factory.mktemp("closed"), environment=secrets) as running:
        yield running
        assert "Traceback" not in running.log.read_text()


def test_the_right_password_opens_and_wrong_ones_close_for_a_while(closed: Serving) -> None:
    with closed.client() as client, closed.client() as other:
        assert client.post("/login", data={"password": PASSWORD}).status_code == 303
        assert client.get("/").status_code == 200
        with closed.noted(lines=8):
            statuses = [other.post("/login", data={"password": f"wrong {number}"}).status_code for number in range(6)]
            assert statuses == [401] * 5 + [429]
            assert other.post("/login", data={"password": PASSWORD}).status_code == 429
            assert other.get("/api/folders", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 429
        assert client.get("/api/folders").status_code == 200  # who is in stays in
        time.sleep(1.1)
        assert other.get("/api/folders", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert "wrong 1" not in closed.log.read_text()


def test_slow_clients_are_hung_up_on_while_others_are_served(closed: Serving) -> None:
    def slow(start: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", closed.port), timeout=30) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(start)
                for _ in range(60):
                    connection.sendall(b"x")
                    time.sleep(0.5)
            with contextlib.suppress(ConnectionError):
                return connection.recv(1000)
        return b""

    upload = "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n"
    starts = [b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "] * 20 + [upload.encode()] * 20
    with ThreadPoolExecutor(40) as pool, closed.noted(lines=40 + 20), closed.client() as client:
        hung_up = pool.map(slow, starts)
        assert client.get("/healthz").status_code == 200
        assert set(hung_up) == {b""}
    assert closed.log.read_text().count("Hung up on 127.0.0.1") == 40
