"""The page and the HTTP interface under load: 1, 8 and 32 clients, beside bare embedding + FAISS. A table on stdout.

python -m bench.serve_load --seconds 60        # a quarter of an hour
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import torch

from bench.input_photos import write_photos
from bench.machine import machine_facts, markdown_facts, markdown_table
from bench.peak_memory import anonymous_bytes
from bench.served import Server, serving, write_library
from mocosearch.images.decode import decode
from mocosearch.library import Library

SHOWN = 60  # photos that a step of the page shows
K = 10  # results asked of the HTTP interface
PICTURES = 8
PICTURE_SIZE = (1600, 1200)
COLUMNS = ["asked for", "clients", "answers", "errors", "answers/s", "p50 ms", "p95 ms", "p95 / p50 of one"]
COLUMNS += ["bare ms", "overhead ms", "server MB"]


@dataclass(frozen=True, slots=True)
class Work:
    """Something that clients ask for, and what of it has to be done anyway. Both are given a number, for variety."""

    name: str
    ask: Callable[["Client", int], None]  # raises OSError, HTTPException or ValueError when there is no good answer
    bare: Callable[[int], object]


@dataclass(slots=True)
class Load:
    """What came of some clients asking for some time."""

    seconds: list[float] = field(default_factory=list)  # of each answer
    bare: list[float] = field(default_factory=list)  # the same work without a server, after each answer
    errors: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # bytes of the server, twice a second


class Client:
    """One connection that is kept, as a browser or a program has it."""

    def __init__(self, server: Server, name: str) -> None:
        self._connection = HTTPConnection(urlsplit(server.address).netloc, timeout=120)
        self._session = name

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Return the body of an answer; ValueError when its status says that it failed."""
        kind = {"Content-Type": "application/json"} if body and body[:1] == b"{" else {}
        self._connection.request(method, path, body, kind)
        with self._connection.getresponse() as response:
            data = response.read()
        if response.status >= 300:
            raise ValueError(f"{method} {path.partition('?')[0]}: {response.status} {data[:100]!r}")
        return data

    def look(self, look: str, number: int) -> None:
        """Ask for a look as the page does, by an event in Gradio's queue."""
        event = {"data": [f"{look} {number}"], "fn_index": 1, "trigger_id": 2, "session_hash": self._session}
        self.request("POST", "/gradio_api/queue/join", json.dumps(event).encode())
        stream = self.request("GET", f"/gradio_api/queue/data?session_hash={self._session}")
        if b"/thumbnails/" not in stream:
            raise ValueError(f"a view without photos: {stream[-300:]!r}")

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def works(library: Library, pictures: list[bytes]) -> list[Work]:
    """Return what is asked for: neighbors of photos and of pictures, of the page and of the HTTP interface."""
    ids = library.index.ids().tolist()
    short_side = library.encoder.preprocessing.resize

    def photo(number: int) -> int:
        return int(ids[number * 7919 % len(ids)])

    def picture(number: int) -> bytes:
        return pictures[number % len(pictures)]

    def bare_photo(k: int) -> Callable[[int], object]:
        return lambda number: library.index.search(library.index.vectors([photo(number)]), k)

    def bare_picture(k: int) -> Callable[[int], object]:
        def search(number: int) -> object:
            vector = library.encoder.embed_image(decode(picture(number), short_side=short_side).image)
            return library.index.search(vector[None], k)

        return search

    def page_photo(client: Client, number: int) -> None:
        client.look(f"like={photo(number)}", number)

    def page_picture(client: Client, number: int) -> None:
        example = json.loads(client.request("POST", "/api/queries", picture(number)))["example"]
        client.look(f"like={example}", number)

    def api_photo(client: Client, number: int) -> None:
        _check(client.request("GET", f"/api/photos/{photo(number)}/similar?k={K}"))

    def api_picture(client: Client, number: int) -> None:
        _check(client.request("POST", f"/api/search?k={K}", picture(number)))

    return [
        Work("page, by photo", page_photo, bare_photo(SHOWN)),
        Work("page, by picture", page_picture, bare_picture(SHOWN)),
        Work("API, by photo", api_photo, bare_photo(K)),
        Work("API, by picture", api_picture, bare_picture(K)),
    ]


def _check(answer: bytes) -> None:
    if answer.count(b'"score"') != K:
        raise ValueError(f"not {K} results: {answer[:200]!r}")


def load(server: Server, work: Work, clients: int, seconds: float) -> Load:
    """Let so many clients ask one thing after the other for so long. One alone takes turns with the bare work."""
    done = Load()
    numbers = count()
    end = time.perf_counter() + seconds

    def ask(name: str) -> None:
        client = Client(server, name)
        while (before := time.perf_counter()) < end:
            number = next(numbers)
            try:
                work.ask(client, number)
            except (OSError, HTTPException, ValueError) as error:
                done.errors.append(f"{type(error).__name__}: {error}")
                client.close()
                continue
            answered = time.perf_counter()
            done.seconds.append(answered - before)
            if clients == 1:
                work.bare(number)
                done.bare.append(time.perf_counter() - answered)
        client.close()

    names = [f"session{time.monotonic_ns()}-{number}" for number in range(clients)]
    threads = [threading.Thread(target=ask, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        done.memory.append(anonymous_bytes(server.process))
        time.sleep(0.5)
    return done


def row(work: Work, clients: int, seconds: float, done: Load, alone: Load) -> list[str]:
    """Return a row of the table; `alone`: what one client found."""
    memory = f"{_third(done.memory, 1):.0f} → {_third(done.memory, 2):.0f}"
    start = [work.name, str(clients), str(len(done.seconds)), str(len(done.errors))]
    if not done.seconds or not alone.seconds:
        return [*start, *"-" * 6, memory]
    p50, p95 = np.percentile(done.seconds, [50, 95]) * 1000
    spread = p95 / (statistics.median(alone.seconds) * 1000)
    bare = overhead = "-"
    if done.bare:
        bare = f"{statistics.median(done.bare) * 1000:.1f}"
        pairs = zip(done.seconds, done.bare, strict=True)
        overhead = f"{statistics.median(whole - part for whole, part in pairs) * 1000:.1f}"
    rate = len(done.seconds) / seconds
    return [*start, f"{rate:.1f}", f"{p50:.1f}", f"{p95:.1f}", f"{spread:.1f}", bare, overhead, memory]


def _third(samples: list[int], number: int) -> float:
    """Return the median megabytes of a third of the samples."""
    return float(np.median(np.array_split(samples, 3)[number])) / 1e6


def measure(server: Server, todo: list[Work], clients: list[int], seconds: float) -> Iterator[list[str]]:
    """Yield the table's rows."""
    for work in todo:
        load(server, work, max(clients), min(seconds, 5))  # so that everything is loaded and every process started
    for work in todo:
        alone = load(server, work, 1, seconds)
        for number in clients:
            done = alone if number == 1 else load(server, work, number, seconds)
            for error in sorted(set(done.errors))[:5]:
                print(f"{work.name}, {number} clients: {error}", file=sys.stderr)
            yield row(work, number, seconds, done, alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, help="an indexed folder  [default: one that is generated]")
    parser.add_argument("--photos", type=int, default=10_000, help="in the one that is generated")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--seconds", type=float, default=60, help="for each number of clients")
    parser.add_argument("--only", help="works whose name holds this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-serve-") as scratch:
        root = options.library or Path(scratch) / "library"
        if options.library is None:
            write_library(root, options.photos)
        write_photos(Path(scratch), PICTURES, size=PICTURE_SIZE)
        pictures = [path.read_bytes() for path in sorted(Path(scratch, "photos").iterdir())]
        print(f"Command: python -m bench.serve_load {shlex.join(sys.argv[1:])}\n")
        print(markdown_facts(machine_facts(torch.device("cpu"))))
        with Library.open(root) as library, serving(root) as server:
            print(f"\n{library.index.counts()['indexed']:,} photos, {library.index.encoder.description}\n")
            todo = [work for work in works(library, pictures) if (options.only or "") in work.name]
            clients = [int(number) for number in options.clients.split(",")]
            print(markdown_table(COLUMNS, list(measure(server, todo, clients, options.seconds))))


if __name__ == "__main__":
    main()
