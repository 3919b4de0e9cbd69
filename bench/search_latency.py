"""Search against the raw FAISS call, and against hnswlib and usearch at equal recall. Tables on stdout.

python -m bench.search_latency                                # 10k, 100k and 1M vectors of 512: some minutes, 6 GB
python -m bench.search_latency --sizes 2000 --peers-at 2000 --rounds 2
"""

import argparse
import importlib.util
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from bench.machine import machine_facts, markdown_facts, markdown_table
from bench.train_step import ratio

_COLUMNS = [
    "vectors",
    "level",
    "cells, visited",
    "ms a query",
    "time / raw FAISS",
    "recall@10",
    "recall it states",
    "bytes a vector",
    "memory, MB",
    "peak, MB",
    "made in s",
]
_PEER_COLUMNS = ["vectors", "peer", "ms a query", "time / ours", "recall@10", "ours", "bytes a vector", "made in s"]
_GROW_COLUMNS = ["vectors", "level", "added", "commit s", "save s", "reader follows s", "peak of both, MB", "found"]
_EXACT_ONLY = 50_000  # vectors; lists of cells are measured above


def run(part: str, folder: Path, **values: object) -> dict[str, Any]:
    """Run a part of the measurement in a process of its own."""
    print(f"{part} {' '.join(f'{name}={value}' for name, value in values.items())} ...", file=sys.stderr)
    arguments = json.dumps({"folder": str(folder), **values})
    command = [sys.executable, "-m", "bench.search_parts", part, arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(count: int, made: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return the table's row of one level."""
    report, taken = found["report"], found["taken"]
    stated = report["recall_at_10"]
    return [
        f"{count:,}",
        f"{report['level']}{', whitened' if report['whitened'] else ''}",
        "" if report["cells"] is None else f"{report['cells']}, {report['cells_visited']}",
        f"{1000 * statistics.median(taken['ours']):.2f}",
        ratio(taken["ours"], taken["raw"]),
        f"{found['recall']:.4f}",
        "" if stated is None else f"{stated:.4f}",
        f"{report['bytes_a_vector']:.0f}",
        f"{found['memory'] / 1e6:.0f}",
        f"{max(found['peak'], made['peak']) / 1e6:.0f}",
        f"{made['seconds']:.1f}",
    ]


def peer_row(count: int, name: str, found: dict[str, Any]) -> list[str]:
    """Return the table's row of one peer."""
    taken = found["taken"]
    return [
        f"{count:,}",
        name,
        f"{1000 * statistics.median(taken[name]):.2f}",
        ratio(taken[name], taken["ours"]),
        f"{found['recall']:.4f}",
        f"{found['target']:.4f}",
        f"{found['memory'] / count:.0f}",
        f"{found['seconds']:.1f}",
    ]


def grow_row(count: int, level: str, added: int, found: dict[str, Any]) -> list[str]:
    """Return the table's row of growth."""
    seconds = [f"{found[name]:.2f}" for name in ("commit", "save", "follow")]
    return [f"{count:,}", level, f"{added:,}", *seconds, f"{found['peak'] / 1e6:.0f}", str(found["found"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000,1000000", help="numbers of vectors, comma-separated")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--levels", default="exact,ivf,compressed")
    parser.add_argument("--peers-at", type=int, default=100_000, help="the size at which peers take part; 0: none")
    parser.add_argument("--added", type=int, default=1000, help="photos that are added at the end")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeat", type=int, default=15, help="queries in a round")
    options = parser.parse_args()
    facts = markdown_facts(machine_facts(torch.device("cpu")))
    print(f"Command: python -m bench.search_latency {shlex.join(sys.argv[1:])}\n\n{facts}\n")
    peers = [name for name in ("hnswlib", "usearch") if importlib.util.find_spec(name) is not None]
    levels: list[list[str]] = []
    others: list[list[str]] = []
    growth: list[list[str]] = []
    for count in (int(size) for size in options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="search-latency-") as temporary:
            folder = Path(temporary) / "index"
            run("make", folder, count=count, dim=options.dim)
            for level in options.levels.split(",") if count >= _EXACT_ONLY or options.peers_at == count else ["exact"]:
                for whiten in (True, False):  # as by default, then as peers have the vectors
                    made = run("tune", folder, level=level, whiten=whiten)
                    found = run("latency", folder, rounds=options.rounds, each=options.repeat)
                    levels.append(row(count, made, found))
                for name in peers if count == options.peers_at and level == "ivf" else []:
                    found = run("peer", folder, name=name, rounds=options.rounds, each=options.repeat)
                    others.append(peer_row(count, name, found))
            growth.append(grow_row(count, level, options.added, run("grow", folder, added=options.added)))
    print(markdown_table(_COLUMNS, levels))
    print(f"\n{markdown_table(_GROW_COLUMNS, growth)}")
    if others:
        print(f"\n{markdown_table(_PEER_COLUMNS, others)}")


if __name__ == "__main__":
    main()
