"""What a sweep found: the figures of each study in a table and a plot."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mocosearch.ablations.studies import Cell, Study
from mocosearch.ablations.sweep import CellResult
from mocosearch_index.atomic import atomic_path

Results = Callable[[Cell], CellResult | None]


@dataclass(frozen=True)
class Spread:
    """kNN accuracy of one recipe trained from several seeds."""

    mean: float
    deviation: float  # of a single run, with n - 1
    runs: int


def spread(cells: Sequence[Cell], results: Results) -> Spread | None:
    """Return the spread over the cells that are done; None for fewer than two."""
    found = [result.knn_accuracy for cell in cells if (result := results(cell))]
    return Spread(fmean(found), stdev(found), len(found)) if len(found) > 1 else None


COLUMNS = ("kNN accuracy", "95% interval", "rank", "loss", "key found")


def rows(study: Study, results: Results) -> Iterator[tuple[str, ...]]:
    """Yield a setting and its figures, in COLUMNS' order, as text; the rank is RankMe's, of the vectors."""
    for setting, cell in study.cells:
        found = results(cell)
        if found is None:
            yield (setting, *("-" for _ in COLUMNS))
            continue
        low, high = found.interval
        yield (
            setting,
            f"{found.knn_accuracy:.3f}{' (collapsed)' if found.collapsed else ''}",
            f"{low:.3f}-{high:.3f}",
            f"{found.effective_rank:.0f}",
            "-" if found.loss is None else f"{found.loss:.2f}",
            "-" if found.contrastive_accuracy is None else f"{found.contrastive_accuracy:.0%}",
        )


def as_dictionary(
    studies: Sequence[Study], results: Results, *, baseline: Spread | None, untrained: float
) -> dict[str, Any]:
    """Return all figures, for JSON; null where a cell is not done."""
    return {
        "untrained": untrained,
        "baseline": None if baseline is None else asdict(baseline),
        "studies": {
            study.name: {
                setting: found.model_dump() if (found := results(cell)) else None for setting, cell in study.cells
            }
            for study in studies
        },
    }


def draw(study: Study, results: Results, path: Path, *, baseline: Spread | None) -> None:
    """Draw kNN accuracy against the setting, with its intervals and the spread of the baseline's seeds, as PNG."""
    from matplotlib.figure import Figure

    done = [(setting, result) for setting, cell in study.cells if (result := results(cell))]
    if not done:
        return
    accuracy = [result.knn_accuracy for _, result in done]
    below = [result.knn_accuracy - result.interval[0] for _, result in done]
    above = [result.interval[1] - result.knn_accuracy for _, result in done]
    figure = Figure(figsize=(7, 4), layout="constrained")
    title = f"Ablation of {study.name} (chance is {done[0][1].chance:.2f})"
    axes = figure.add_subplot(xlabel=study.axis, ylabel="kNN accuracy", title=title)
    if baseline is not None:
        low, high = baseline.mean - baseline.deviation, baseline.mean + baseline.deviation
        label = f"baseline, {baseline.runs} seeds: {baseline.mean:.3f}, std {baseline.deviation:.3f}"
        axes.axhspan(low, high, color="tab:orange", alpha=0.3, label=label)
    style = "o" if study.name == "dictionary" else "o-"  # dictionaries have no order
    settings = [setting for setting, _ in done]
    axes.errorbar(settings, accuracy, yerr=[below, above], fmt=style, capsize=4, label="one run, 95% interval")
    axes.tick_params(axis="x", labelrotation=15 if max(map(len, settings)) > 8 else 0)
    axes.grid(axis="y", alpha=0.3)
    axes.legend()
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png", dpi=120)
