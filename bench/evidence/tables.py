"""The tables of docs/evidence.md, from the JSON files of the runs: Markdown on stdout.

python -m bench.evidence.tables

Differences are paired by photo.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from bench.evidence.__main__ import photos_file, result_file
from bench.evidence.plan import COMPARED, PLAN, Planned
from bench.evidence.scores import FIGURES, differences, kept
from bench.machine import markdown_table

_TITLES = ("linear", "kNN", "precision@10", "mAP")


def main() -> None:
    for case in dict.fromkeys(planned.case for planned in PLAN):
        done = [planned for planned in PLAN if planned.case == case and result_file(planned).exists()]
        for trial, title in ((False, "long runs"), (True, "trials")):
            rows = [row for planned in done if planned.trial == trial for row in _rows(planned)]
            if rows:
                print(f"\n## {case}: {title}\n")
                print(markdown_table(("run", "pixels", "minutes", "cores", "photos seen", *_TITLES), rows))
        rows = [row for pair in COMPARED if pair[0].case == case for row in _compared(*pair)]
        if rows:
            print(f"\n## {case}: differences\n")
            print(markdown_table(("run", "against", "pixels", *_TITLES), rows))


def result(planned: Planned) -> dict[str, Any]:
    """Read the JSON file of a run."""
    read: dict[str, Any] = json.loads(result_file(planned).read_text())
    return read


def _rows(planned: Planned) -> Iterator[Sequence[str]]:
    told = result(planned)
    for pixels, figures in told["figures by pixels"].items():
        seen = told["run"].get("photos seen")
        shown = f"{seen:,}" if seen else ""
        cores = str(told["run"]["cores"])
        yield planned.name, pixels, f"{planned.minutes:g}", cores, shown, *(_cell(figures[name]) for name in FIGURES)


def _compared(one: Planned, other: Planned) -> Iterator[Sequence[str]]:
    for pixels in one.pixels:
        files = [photos_file(planned, pixels) for planned in (one, other)]
        if all(file.exists() for file in files):
            figures = differences(*map(kept, files))
            yield one.name, other.name, str(pixels), *(_cell(figures[name], sign="+") for name in FIGURES)


def _cell(figure: dict[str, float], sign: str = "") -> str:
    value, low, high = (f"{100 * figure[key]:{sign}.1f}" for key in ("value", "low", "high"))
    return f"{value} ({low} .. {high})"


if __name__ == "__main__":
    main()
