"""Photos to vectors with one ResNet-50: ours, others' pipelines, and the ceilings of decoder and network. One table.

python -m bench.index_throughput --folder photos              # the first call makes 400 + 2,000 photos: 2 GB, minutes
python -m bench.index_throughput --large 40 --small 200       # quickly
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
from torch import nn

from bench.indexers import CEILINGS, INDEXERS, Assets, Cost, cost
from bench.input_photos import write_photos
from bench.machine import machine_facts, markdown_facts, markdown_table
from mocosearch.encoders import Encoder, EncoderCard
from mocosearch.encoders.card import IMAGENET
from mocosearch.nets import build_backbone

SIZES = {"large": (4000, 3000), "small": (500, 375)}
OURS = "mocosearch"
ALWAYS = (*CEILINGS, OURS)
Rounds = dict[str, list[Cost]]  # a cost a round


def make_network(folder: Path, architecture: str, *, onnx: bool) -> None:
    """Write a network with random weights as an encoder of ours and as ONNX: speed does not depend on weights."""
    torch.manual_seed(0)
    network = build_backbone(architecture).eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):  # or values would grow from block to block
            module.weight.data.fill_(0.5)
    card = EncoderCard(architecture, False, None, "nothing", 0, 0, "none", "")
    Encoder(network, card, IMAGENET, torch.device("cpu")).save(folder / "encoder")
    if onnx:
        torch.onnx.export(
            network,
            (torch.zeros(2, 3, 224, 224),),
            folder / "network.onnx",
            input_names=["input"],
            dynamic_shapes={"x": {0: torch.export.Dim("batch")}},
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def contestants(wanted: list[str]) -> list[str]:
    """Name who takes part: the ceilings, ours, and the wanted ones that can."""
    names = [name for name in INDEXERS if name in wanted or name in ALWAYS]
    if importlib.util.find_spec("onnxruntime"):
        return names
    print("rclip-style is left out: pip install 'mocosearch[onnx]'", file=sys.stderr)
    return [name for name in names if not name.startswith("rclip")]


def measure(folder: Path, names: list[str], rounds: int, arguments: list[str]) -> Rounds:
    """Let everyone go through the photos of a folder once a round, in a process of its own, another one first."""
    found: Rounds = {name: [] for name in names}
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            print(f"{folder.name}, round {number + 1}: {name} ...", file=sys.stderr)
            command = [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "bench.index_throughput",
                *arguments,
                "--only",
                name,
                "--photos",
                folder,
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[name].append(Cost(**json.loads(done.stdout)))
    return found


def rows(kind: str, found: Rounds) -> list[list[str]]:
    """Return the table's rows of one kind of photos."""
    rates = {name: [cost.photos / cost.seconds for cost in costs] for name, costs in found.items()}
    ceiling = [min(both) for both in zip(*(rates[name] for name in CEILINGS), strict=True)]
    return [
        [
            kind,
            name,
            f"{statistics.median(rates[name]):.1f}",
            _ratio(rates[OURS], rates[name]),
            _ratio(rates[name], ceiling),
            f"{max(cost.peak_bytes for cost in costs) / 2**20:,.0f}",
        ]
        for name, costs in found.items()
    ]


def _ratio(own: list[float], other: list[float]) -> str:
    ratios = [a / b for a, b in zip(own, other, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


COLUMNS = ["photos", "who", "photos/s", "ours / this (range)", "this / slower ceiling", "peak anonymous MiB"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, help="where the photos are, or will be, kept  [default: a temporary one]"
    )
    parser.add_argument("--large", type=int, default=400, help="photos of 12 megapixels")
    parser.add_argument("--small", type=int, default=2000, help="photos of 500 pixels")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--architecture", default="resnet50")
    parser.add_argument("--who", default=",".join(INDEXERS), help="names, comma-separated  [default: %(default)s]")
    parser.add_argument("--only", choices=INDEXERS, help=argparse.SUPPRESS)  # this process is one contestant
    parser.add_argument("--photos", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.who.split(",") if name not in INDEXERS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(INDEXERS)}")
    if options.only:
        scratch = options.scratch
        assets = Assets(options.photos, scratch / "encoder", scratch / "network.onnx", scratch)
        print(json.dumps(asdict(cost(options.only, assets))))
        return
    with tempfile.TemporaryDirectory(prefix="bench-index-") as name:
        scratch = Path(name)
        names = contestants(options.who.split(","))
        make_network(scratch, options.architecture, onnx=any(name.startswith("rclip") for name in names))
        facts = markdown_facts(machine_facts(torch.device("cpu")))
        table: list[list[str]] = []
        for kind, size in SIZES.items():
            count = getattr(options, kind)
            if count:
                folder = (options.folder or scratch) / f"{kind}-{count}"
                write_photos(folder, count, size=size)
                found = measure(folder, names, options.rounds, ["--scratch", name])
                table += rows(f"{count:,} of {size[0]} x {size[1]}", found)
    print(f"Command: python -m bench.index_throughput {shlex.join(sys.argv[1:])}\n\n{facts}\n")
    print(markdown_table(COLUMNS, table))


if __name__ == "__main__":
    main()
