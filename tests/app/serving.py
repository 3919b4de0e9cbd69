"""`mocosearch serve` in a process of its own, and what a client does with it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


class Serving:
    """A running `mocosearch serve`."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path, address: str) -> None:
        self.process = process
        self.log = log
        self.address = address

    @property
    def port(self) -> int:
        """The port it answers at."""
        return int(self.address.rpartition(":")[2])

    def client(self) -> httpx.Client:
        """A client for it."""
        return httpx.Client(base_url=self.address, timeout=60, trust_env=False)

    def upload(self, data: bytes) -> str:
        """Upload a picture and return the look that searches with it."""
        with self.client() as client:
            answer = client.post("/api/queries", content=data)
        assert answer.status_code == 201, answer.text
        return f"like={answer.json()['example']}"

    def look(self, look: str) -> str:
        """Ask for a look as the page does; return the HTML of the view."""
        return self.event(1, f"{look} 1")

    def event(self, function: int, value: str, session: str = "test") -> str:
        """Send an event as the page does, through Gradio's queue; return the HTML that it is answered with."""
        with self.client() as client:
            event = {
                "data": [value],
                "event_data": value,
                "fn_index": function,
                "trigger_id": 2,
                "session_hash": session,
            }
            joined = client.post("/gradio_api/queue/join", json=event)
            assert joined.status_code == 200, joined.text
            with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as stream:
                for line in stream.iter_lines():
                    if '"process_completed"' in line:
                        return str(json.loads(line.removeprefix("data:"))["output"]["data"][0])
        raise AssertionError("the queue gave no answer")

    def raw(self, request: bytes) -> bytes:
        """Send bytes as they are and return what comes back until the server hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    @contextmanager
    def noted(self, lines: int = 1) -> Iterator[None]:
        """See that what is done within is noted in so many lines of the log."""
        before = len(self.log.read_text().splitlines())
        yield
        new = self.log.read_text().splitlines()[before:]
        assert len(new) == lines, new
        assert all(len(line) < 400 for line in new)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def serving(root: Path, folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> Iterator[Serving]:
    """Run `mocosearch serve` on `root`; what it writes to stderr goes to a file in `folder`."""
    log = folder / "serve.log"
    command = [sys.executable, "-m", "mocosearch", "serve", str(root), *arguments]
    with log.open("w") as stderr:
        env = ENVIRONMENT | (environment or {})
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=env)
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address), log.read_text()
        yield Serving(process, log, address)
    finally:
        process.terminate()  # not killed: it has a temporary folder to remove
        process.wait(60)


def thumbnails(view: str) -> list[str]:
    """The addresses of the thumbnails in a view."""
    return re.findall(r'src="(/thumbnails/[^"]+)"', view)
