"""A library of 100,000 files in which nothing changed: `Library.update` beside a bare walk. A table on stdout.

python -m bench.rescan --folder /tmp/bench-rescan        # the files are made at the first call: 400 MB of blocks
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from bench.machine import machine_facts, markdown_facts, markdown_table
from mocosearch.images.walk import find_photos
from mocosearch.library import Library
from mocosearch.update.scan import look, many_records
from mocosearch_index.image_index import ImageIndex, is_index
from mocosearch_index.records import EmbeddedPhoto, EncoderIdentity

DIM = 128
BARE = "bare scandir + stat"
COLUMNS = ["contestant", "seconds", "files/s", "time / bare walk"]


def write_library(root: Path, files: int, files_a_folder: int) -> None:
    """Write small files in folders of years and events, and an index of them with vectors made of dice."""
    for number in range(files):
        event = number // files_a_folder
        path = root / str(2000 + event // 20) / f"event {event:04}" / f"IMG_{number:06}.JPG"
        if number % files_a_folder == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (number % 50 + 1))
    rng = np.random.default_rng(0)
    encoder = EncoderIdentity("0" * 16, DIM, "dice")
    with ImageIndex.create(root / ".mocosearch", root=root, encoder=encoder) as index:
        stamps = list(find_photos(root))
        vectors = rng.standard_normal((len(stamps), DIM)).astype(np.float32)
        hashes = (b"%016d" % number for number in range(len(stamps)))
        index.commit(
            [
                EmbeddedPhoto(*known, 64, 48, None, vector)
                for *known, vector in zip(stamps, hashes, vectors, strict=True)
            ]
        )
        index.save_search_file()


def bare_walk(root: Path) -> int:
    """Do what every rescan has to: list each folder, ask for size and time of each file."""
    count = 0
    stack = [os.fsencode(root)]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                else:
                    entry.stat()
                    count += 1
    return count


def update(root: Path) -> None:
    """Open the library, bring it up to date, close it."""
    with Library.open(root, writable=True) as library:
        report = library.update()
        assert report.unchanged == report.found


def walk(root: Path) -> None:
    """Look for photos as an update does."""
    with many_records():
        look(root)


def whole_command(root: Path, home: Path) -> None:
    """The same as people type it, with the start of Python and all imports."""
    command = [sys.executable, "-m", "mocosearch", "index", str(root)]
    environment = os.environ | {"MOCOSEARCH_HOME": str(home)}
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def measure(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each contestant in each round, another one first each time, after a round to warm up."""
    names = list(contestants)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-1, rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            began = time.perf_counter()
            contestants[name]()
            if number >= 0:
                found[name].append(time.perf_counter() - began)
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return found


def rows(found: dict[str, list[float]], files: int) -> list[list[str]]:
    """Return the table's rows."""
    table = []
    for name, seconds in found.items():
        ratios = [own / bare for own, bare in zip(seconds, found[BARE], strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        median = statistics.median(seconds)
        table.append([name, f"{median:.3f}", f"{files / median:,.0f}", spread])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where the files are, or will be, kept  [default: a temporary one]")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--files-a-folder", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-rescan-") as scratch:
        root = options.folder or Path(scratch) / "photos"
        if not is_index(root / ".mocosearch"):
            root.mkdir(parents=True, exist_ok=True)
            write_library(root, options.files, options.files_a_folder)
        contestants: dict[str, Callable[[], object]] = {
            BARE: lambda: bare_walk(root),
            "mocosearch, its walk alone": lambda: walk(root),
            "mocosearch, open + update": lambda: update(root),
            "mocosearch index, whole command": lambda: whole_command(root, Path(scratch) / "home"),
        }
        facts = markdown_facts(machine_facts(torch.device("cpu")))
        print(f"Command: python -m bench.rescan {shlex.join(sys.argv[1:])}\n\n{facts}\n")
        print(markdown_table(COLUMNS, rows(measure(contestants, options.rounds), bare_walk(root))))


if __name__ == "__main__":
    main()
