"""One training step of mocosearch against lightly's MoCo v2 and against the bare ceiling. One table on stdout.

python -m bench.train_step                                    # the three cases of this machine's size
python -m bench.train_step --cases resnet50-224 --rounds 15 --compile
"""

import argparse
import gc
import importlib.util
import shlex
import statistics
import sys
from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter

import torch

from bench.contestants import Case, Step, ceiling, lightly, mocosearch
from bench.machine import machine_facts, markdown_facts, markdown_table
from mocosearch.devices import autocast_dtype, best_device

_CPU = [
    Case("resnet18-64", "resnet18", 64, batch=64, keys=4096),
    Case("resnet50-64", "resnet50", 64, batch=32, keys=65536),
    Case("resnet50-224", "resnet50", 224, batch=8, keys=65536),
]
_GPU = [replace(case, batch=256) for case in _CPU]
_TINY = [Case("tiny", "resnet18", 32, batch=4, keys=32)]
_WARM_UP = 2  # steps, the compiling one included


def cases(device: torch.device) -> dict[str, Case]:
    """Return the cases by name; a GPU gets the paper's batch."""
    return {case.name: case for case in (_CPU if device.type == "cpu" else _GPU) + _TINY}


def contestants(case: Case, device: torch.device, *, compiled: bool) -> dict[str, Step]:
    """Return who can take part here: lightly if it is installed, its bf16 where the device computes it natively."""
    dtype = autocast_dtype(device)
    found = {"bare ceiling": ceiling(case, device), "mocosearch": mocosearch(case, device)}
    if compiled:
        found["mocosearch, compiled"] = mocosearch(case, device, compiled=True)
    if importlib.util.find_spec("lightly") is None:
        print("lightly is not installed and left out: pip install -e '.[bench]'", file=sys.stderr)
        return found
    found["lightly"] = lightly(case, device)
    if dtype is not None:
        found["lightly, bf16-mixed"] = lightly(case, device, mixed=dtype)
    if compiled:
        found["lightly, compiled"] = lightly(case, device, mixed=dtype, compiled=True)
    return found


def seconds(step: Step, device: torch.device, steps: int) -> float:
    """Return the seconds of one step, the device's work included."""
    before = perf_counter()
    for _ in range(steps):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (perf_counter() - before) / steps


def measure(steps: Mapping[str, Step], device: torch.device, *, rounds: int, repeat: int) -> dict[str, list[float]]:
    """Return each contestant's seconds a step, one entry a round; a round lets all run once, another one first."""
    for step in steps.values():
        seconds(step, device, _WARM_UP)
    taken: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            taken[name].append(seconds(steps[name], device, repeat))
    return taken


def ratio(taken: list[float], other: list[float]) -> str:
    """Return the median over rounds of taken / other, and the quartiles."""
    ratios = sorted(a / b for a, b in zip(taken, other, strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return f"{middle:.3f} ({low:.3f}-{high:.3f})"


def rows(case: Case, taken: Mapping[str, list[float]]) -> list[list[str]]:
    """Return the table's rows of one case."""
    baseline, peer = taken["bare ceiling"], taken.get("lightly")
    return [
        [
            case.name,
            f"{case.batch}, {case.keys}, {case.groups}",
            name,
            f"{1000 * statistics.median(own):.1f}",
            f"{case.batch / statistics.median(own):.1f}",
            ratio(own, baseline),
            ratio(peer, own) if peer else "",
        ]
        for name, own in taken.items()
    ]


COLUMNS = ["case", "batch, K, groups", "contestant", "ms a step", "images/s", "time / ceiling", "speed / lightly"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="resnet18-64,resnet50-64,resnet50-224", help="names, comma-separated")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeat", type=int, default=1, help="steps that a contestant takes in a round")
    parser.add_argument("--groups", type=int, default=1, help="batch-norm groups of mocosearch and the ceiling")
    parser.add_argument("--compile", action="store_true", help="add compiled contestants; takes minutes on a CPU")
    parser.add_argument("--device", default=str(best_device()))
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.set_float32_matmul_precision("high")  # as lightly's benchmark does, for all
    known = cases(device)
    unknown = [name for name in options.cases.split(",") if name not in known]
    if unknown:
        parser.error(f"unknown case {', '.join(unknown)}; known: {', '.join(known)}")
    print(
        f"Command: python -m bench.train_step {shlex.join(sys.argv[1:])}\n\n{markdown_facts(machine_facts(device))}\n"
    )
    table: list[list[str]] = []
    for name in options.cases.split(","):
        case = replace(known[name], groups=options.groups)
        print(f"measuring {name} ...", file=sys.stderr)
        steps = contestants(case, device, compiled=options.compile)
        table += rows(case, measure(steps, device, rounds=options.rounds, repeat=options.repeat))
        steps.clear()
        gc.collect()  # the next case should find the memory free
    print(markdown_table(COLUMNS, table))


if __name__ == "__main__":
    main()
