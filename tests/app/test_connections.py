"""Clients that take for ever, at a server with little patience."""

import asyncio
import contextlib
import http.client
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mocosearch_app.safety.connections import Patience, PatientConnection

HUGE = 64 << 20  # bytes; more than the system keeps for a connection
HEAD = b"POST /len HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


class Impatient(PatientConnection):
    patience = Patience(connections=8, header=1.5, body=2.5, window=0.5, slowest=1000, answer=0.8)


class Server(uvicorn.Server):
    async def on_tick(self, counter: int) -> bool:
        for connection in list(self.server_state.connections):
            connection.check()  # type: ignore[union-attr]
        return await super().on_tick(counter)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with as many bytes as came, or with a lot."""
    request = Request(scope, receive)
    if request.url.path == "/busy":  # it reads the body only later
        await asyncio.sleep(1.5)
    if request.url.path == "/stuck":  # nobody is served meanwhile
        time.sleep(2)
    with contextlib.suppress(ClientDisconnect):
        read = len(await request.body())
        await Response(bytes(HUGE if request.url.path == "/huge" else read))(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    config = uvicorn.Config(app, http=Impatient, lifespan="off", log_config=None, ws="none", timeout_keep_alive=30)
    server = Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mocosearch_app")


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def rest(connection: socket.socket) -> bytes:
    """What comes until the server hangs up, in whatever way."""
    received = bytearray()
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while part := connection.recv(1 << 20):
            received += part
    return bytes(received)


def drip(connection: socket.socket, data: bytes, pause: float) -> None:
    with contextlib.suppress(OSError):
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(pause)


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().partition(": ")[2] for record in caplog.records]


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["first", "second"])
def test_a_head_that_never_ends_is_cut_off(port: int, before: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with connect(port) as connection:
        connection.sendall(before)
        drip(connection, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100, 0.02)
        assert rest(connection).count(b"200 OK") == (1 if before else 0)
    assert reasons(caplog) == ["it did not finish the head of a request"]


def test_who_says_nothing_is_left_without_a_word(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with connect(port) as connection:
        assert rest(connection) == b""
    assert reasons(caplog) == []


def test_nobody_is_blamed_for_what_the_server_was_held_up(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with connect(port) as idle, connect(port) as stuck:
        idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in idle.recv(1 << 16)
        stuck.sendall(b"GET /stuck HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in rest(stuck)
        idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in rest(idle)
    assert reasons(caplog) == []


def test_a_body_that_drips_is_cut_off(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with connect(port) as connection:
        connection.sendall(HEAD % 1000)
        drip(connection, b"x" * 60, 0.05)
        assert rest(connection) == b""
    assert reasons(caplog) == ["its upload was too slow"]


@pytest.mark.parametrize("length", [b"Content-Length: %d" % HUGE, b"Transfer-Encoding: chunked"])
def test_a_body_that_comes_steadily_but_would_take_too_long_is_cut_off(
    port: int, length: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(port) as connection, contextlib.suppress(OSError):
        connection.sendall(b"POST /len HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n\r\n")
        for _ in range(100):
            connection.sendall(b"3e8\r\n" + bytes(1000) + b"\r\n")
            time.sleep(0.05)
    assert reasons(caplog) == ["its upload was too slow"]


def test_a_large_body_whose_reader_is_busy_is_not_the_clients_fault(port: int) -> None:
    with connect(port) as connection:
        connection.sendall((HEAD % (8 << 20)).replace(b"/len", b"/busy"))
        connection.sendall(bytes(8 << 20))
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("ending", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
def test_an_answer_that_nobody_takes_is_dropped(port: int, ending: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with connect(port) as connection:
        connection.sendall(b"GET /huge HTTP/1.1\r\nHost: x\r\n" + ending + b"\r\n")
        wait_for(lambda: reasons(caplog) == ["it did not take its answer"])
        assert len(rest(connection)) < HUGE


def test_a_slow_but_steady_reader_gets_all(port: int) -> None:
    received = 0
    with connect(port) as connection:
        connection.sendall(b"GET /huge HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        while part := connection.recv(2 << 20):
            received += len(part)
            time.sleep(0.05)
    assert received > HUGE


def test_one_who_asks_quickly_again_and_again_is_never_hung_up_on(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.connect()
    first = connection.sock
    for _ in range(30):
        connection.request("POST", "/", b"12345")
        assert connection.getresponse().read() == bytes(5)
        time.sleep(0.05)
    assert connection.sock is first
    connection.close()


def test_too_many_connections_are_hung_up_on_and_the_others_go_on(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(connect(port)) for _ in range(8)]
        with connect(port) as one_more:
            assert rest(one_more) == b""
        kept[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert kept[0].recv(1000).startswith(b"HTTP/1.1 200 OK")
    assert reasons(caplog) == ["there are 8 connections already"]


def test_one_who_would_rather_speak_another_protocol_is_answered_without_a_word(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert rest(connection).startswith(b"HTTP/1.1 200 OK")
    assert caplog.messages == []


def wait_for(condition: object) -> None:
    for _ in range(200):
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")
