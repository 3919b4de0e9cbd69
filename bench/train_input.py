"""Two augmented views at 224 pixels of 12-megapixel photos: ours, lightly's loader, a plain one. A table on stdout.

python -m bench.train_input --folder /tmp/bench-photos        # 400 photos, made at the first call: 2 GB
"""

import argparse
import importlib.util
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch

from bench.input_photos import SIZE, write_photos
from bench.loaders import LOADERS, Cost, costs
from bench.machine import machine_facts, markdown_facts, markdown_table

Rounds = dict[str, list[list[Cost]]]  # of each loader the costs of its epochs, a list a round


def measure(options: argparse.Namespace) -> Rounds:
    """Let every loader work once a round, in a process and with a cache of its own, another one first each time."""
    names = [name for name in LOADERS if name != "lightly" or importlib.util.find_spec("lightly")]
    if "lightly" not in names:
        print("lightly is not installed and left out: pip install -e '.[bench]'", file=sys.stderr)
    found: Rounds = {name: [] for name in names}
    for number in range(options.rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            print(f"round {number + 1}: {name} ...", file=sys.stderr)
            command = [sys.executable, "-m", "bench.train_input", "--only", name, *sys.argv[1:]]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[name].append([Cost(**row) for row in json.loads(done.stdout)])
    return found


def rows(found: Rounds) -> list[list[str]]:
    """Return the table's rows: each loader's first epoch, and the median of its later ones."""
    table = []
    for epoch in ("first", "later"):
        cpu = {
            name: [
                statistics.median(cost.cpu_seconds / cost.images for cost in _chosen(epochs, epoch))
                for epochs in rounds
            ]
            for name, rounds in found.items()
        }
        for name, rounds in found.items():
            rate = statistics.median(cost.images / cost.seconds for epochs in rounds for cost in _chosen(epochs, epoch))
            ratios = [theirs / own for theirs, own in zip(cpu["plain torchvision"], cpu[name], strict=True)]
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            table.append([epoch, name, f"{rate:.1f}", f"{1000 * statistics.median(cpu[name]):.1f}", spread])
    return table


def _chosen(epochs: list[Cost], which: str) -> list[Cost]:
    return epochs[:1] if which == "first" else epochs[1:]


COLUMNS = ["epoch", "loader", "images/s", "CPU ms an image", "images a CPU second / plain (range)"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, help="where the photos are, or will be, kept  [default: a temporary one]"
    )
    parser.add_argument("--photos", type=int, default=400)
    parser.add_argument("--megapixels", type=float, default=12.0)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2, help="processes of each loader")
    parser.add_argument("--epochs", type=int, default=3, help="of each loader in a round, two at least")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=LOADERS, help=argparse.SUPPRESS)  # this process is one loader of a round
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-input-") as scratch:
        if options.only:
            given = {"batch": options.batch, "workers": options.workers, "epochs": options.epochs}
            measured = costs(options.only, options.folder, Path(scratch) / "cache", **given)
            print(json.dumps([asdict(cost) for cost in measured]))
            return
        if options.folder is None:
            options.folder = Path(scratch)
            sys.argv += ["--folder", scratch]  # for the processes of the rounds
        shrink = (options.megapixels * 1e6 / (SIZE[0] * SIZE[1])) ** 0.5
        write_photos(options.folder, options.photos, size=(round(SIZE[0] * shrink), round(SIZE[1] * shrink)))
        facts = markdown_facts(machine_facts(torch.device("cpu")))
        print(f"Command: python -m bench.train_input {shlex.join(sys.argv[1:])}\n\n{facts}\n")
        print(markdown_table(COLUMNS, rows(measure(options))))


if __name__ == "__main__":
    main()
