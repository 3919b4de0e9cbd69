"""The learning curves of docs/evidence.md: kNN accuracy on up to 512 test photos over the minutes of each long run.

python -m bench.evidence.curves docs/evidence        # one PNG a collection
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from bench.evidence.__main__ import result_file
from bench.evidence.plan import PLAN, Planned
from bench.evidence.tables import result
from mocosearch_index.atomic import atomic_path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    for case in dict.fromkeys(planned.case for planned in PLAN):
        runs = [planned for planned in PLAN if planned.case == case and result_file(planned).exists()]
        runs = [planned for planned in runs if result(planned)["curve"]]
        if runs:
            draw(runs, flags.out / f"{case}.png", title=case)


def draw(runs: Sequence[Planned], path: Path, *, title: str) -> None:
    """Draw the curves of `runs` into one PNG."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="minutes of training", ylabel="kNN accuracy among test photos alone", title=title)
    for planned in runs:
        minutes, accuracy = zip(*result(planned)["curve"], strict=True)
        axes.plot(minutes, accuracy, "o-", markersize=3, label=planned.name)
    axes.grid(alpha=0.3)
    axes.legend()
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png", dpi=120)


if __name__ == "__main__":
    main()
