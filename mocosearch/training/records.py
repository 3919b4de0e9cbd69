"""What a run writes down beside its checkpoints: its steps, its health, a plot of both, and TensorBoard's files."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from mocosearch.training.monitor import HealthReport
from mocosearch.training.plot import PlotFacts, draw
from mocosearch.training.run_folder import RunFolder
from mocosearch.training.tensorboard import Scalars
from mocosearch.training.trainer import StepReport
from mocosearch_index.atomic import atomic_path, atomic_write

_DRAWING_SHARE = 0.01  # of the time since the last drawing


class JsonLines:
    """A file of one object a line, appended to; steps after `keep_steps`, which a resumed run repeats, are dropped."""

    def __init__(self, path: Path, *, keep_steps: int) -> None:
        kept = [row for row in read_rows(path) if row["step"] <= keep_steps]
        self.written_until = kept[-1]["step"] if kept else -1  # step of the last line
        atomic_write(path, "".join(json.dumps(row) + "\n" for row in kept).encode())
        self._file = path.open("a", encoding="utf-8")

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one line."""
        self.written_until = row["step"]
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Records:
    """The files of one run; used by its first rank."""

    def __init__(self, folder: RunFolder, facts: PlotFacts, *, keep_steps: int, tensorboard: bool) -> None:
        self._folder = folder
        self._facts = facts
        self._steps = JsonLines(folder.metrics, keep_steps=keep_steps)
        self._health = JsonLines(folder.health, keep_steps=keep_steps)
        self._scalars = Scalars(folder.path / "tensorboard", first_step=keep_steps + 1) if tensorboard else None
        self._drawn_at, self._drawing = perf_counter(), 0.0  # seconds

    @property
    def looked_until(self) -> int:
        """The step of the last look at the encoder that is written down, -1 before there is one."""
        return self._health.written_until

    def step(self, report: StepReport) -> None:
        """Write down one step."""
        row = asdict(report)
        row |= row.pop("metrics")
        del row["stop"]
        self._steps.write(row)
        if self._scalars:
            self._scalars.add("train", row)

    def health(self, report: HealthReport) -> None:
        """Write down one look at the encoder, and draw, unless that would take too much of the time."""
        row = {name: value for name, value in asdict(report).items() if value is not None}
        self._health.write(row)
        if self._scalars:
            self._scalars.add("health", row)
        last = report.step == self._facts.total_steps
        if last or (perf_counter() - self._drawn_at) * _DRAWING_SHARE >= self._drawing:
            self._draw()

    def _draw(self) -> None:
        started = perf_counter()
        figure = draw(read_rows(self._folder.metrics), read_rows(self._folder.health), self._facts)
        with atomic_path(self._folder.plot) as partial:
            figure.savefig(partial, format="png")
        self._drawn_at = perf_counter()
        self._drawing = self._drawn_at - started

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._steps.close()
        self._health.close()
        if self._scalars:
            self._scalars.close()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a file of one object a line up to its end, or to a damaged line, such as a half-written one."""
    rows: list[dict[str, Any]] = []
    if path.exists():
        for line in path.read_bytes().splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                break
            if not isinstance(row, dict) or "step" not in row:
                break
            rows.append(row)
    return rows
