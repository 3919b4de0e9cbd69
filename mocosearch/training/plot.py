"""A run as one picture: loss, accuracy and learning rate of every step, and health."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from mocosearch_index.paths import printable

Row = Mapping[str, Any]
_POINTS = 200  # of a curve; each shows the median of many steps
_BLUE, _GREEN, _RED, _GRAY = "#1f5fa8", "#2b8a57", "#c03a2b", "#8a8f98"
_HEALTH = (
    ("effective_rank", "Effective rank", "directions in use; higher is richer, 1 is collapse", (1.0, None)),
    ("feature_spread", "Feature spread", "0 is collapse", (0.0, None)),
    ("uniformity", "Uniformity", "lower is more even; 0 is collapse", (None, 0.0)),
    ("alignment", "Alignment", "distance² of two views; lower is closer", (0.0, None)),
)


@dataclass(frozen=True)
class PlotFacts:
    """What the curves are drawn against."""

    title: str
    steps_per_epoch: int
    total_steps: int
    chance_loss: float
    chance_knn: float | None  # of the probe, where there is one


def draw(metrics: Sequence[Row], health: Sequence[Row], facts: PlotFacts) -> Figure:
    """Draw the rows of metrics.jsonl and health.jsonl so far."""
    figure = Figure(figsize=(13, 6.4), dpi=100, layout="constrained")
    left = "loss" if facts.chance_knn is None else "knn_accuracy"
    axes = figure.subplot_mosaic([["loss", left, "accuracy", "lr"], [key for key, *_ in _HEALTH]])
    done = metrics[-1]["step"] if metrics else 0
    title = printable(os.fsencode(facts.title))  # it has a file's name in it, which may be anything
    figure.suptitle(
        f"{title}: step {done:,} of {facts.total_steps:,}", fontsize=12, x=0.01, ha="left", parse_math=False
    )
    _draw_steps(axes, metrics, facts)
    epochs = np.array([row["step"] for row in health]) / facts.steps_per_epoch
    for key, title, explained, limits in _HEALTH:
        _draw_points(axes[key], epochs, [row[key] for row in health], _GREEN)
        axes[key].set_title(f"{title}\n", loc="left", fontsize=10, fontweight="bold")
        axes[key].text(0, 1.03, explained, transform=axes[key].transAxes, fontsize=8, color=_GRAY)
        _reach(axes[key], *limits)
    if facts.chance_knn is not None:
        axis = axes["knn_accuracy"]
        _draw_points(axis, epochs, [row.get("knn_accuracy", np.nan) for row in health], _GREEN)
        axis.axhline(facts.chance_knn, color=_RED, linestyle="--", linewidth=1, label="always the largest class")
        axis.set_title("kNN accuracy of the probe", loc="left", fontsize=10, fontweight="bold")
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axis.set_ylim(0, 1)
        axis.legend(loc="best", fontsize=8, frameon=False)
    for axis in axes.values():
        _tidy(axis, max(done, 1) / facts.steps_per_epoch)
    return figure


def _draw_steps(axes: Mapping[str, Axes], metrics: Sequence[Row], facts: PlotFacts) -> None:
    loss, accuracy, rate = axes["loss"], axes["accuracy"], axes["lr"]
    loss.set_title("Loss", loc="left", fontsize=10, fontweight="bold")
    accuracy.set_title("Queries that find their key", loc="left", fontsize=10, fontweight="bold")
    accuracy.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    accuracy.set_ylim(0, 1)
    rate.set_title("Learning rate", loc="left", fontsize=10, fontweight="bold")
    loss.axhline(facts.chance_loss, color=_RED, linestyle="--", linewidth=1, label="guessing, ln(K + 1)")
    if metrics:
        epochs = np.array([row["step"] for row in metrics]) / facts.steps_per_epoch
        rate.plot(epochs, [row["lr"] for row in metrics], color=_BLUE, linewidth=1.5)
        filling = sum(row.get("queue_fill", 1.0) < 1 for row in metrics)
        for axis, name in ((loss, "loss"), (accuracy, "accuracy")):
            if filling < len(metrics):  # among random keys the right one is easily found: no figure worth an axis
                _draw_curve(axis, epochs[filling:], np.array([row[name] for row in metrics[filling:]]))
            if filling:
                axis.axvspan(0, epochs[filling - 1], color=_GRAY, alpha=0.2, linewidth=0, label="queue still random")
    _reach(rate, 0.0, None)
    loss.legend(loc="best", fontsize=8, frameon=False)


def _draw_curve(axis: Axes, epochs: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Draw medians of consecutive steps, and the range in which most of the steps lie."""
    parts = min(len(values), _POINTS)
    x = [part.mean() for part in np.array_split(epochs, parts)]
    steps = np.array_split(values, parts)
    low, middle, high = ([np.percentile(part, q) for part in steps] for q in (10, 50, 90))
    axis.fill_between(x, low, high, color=_BLUE, alpha=0.2, linewidth=0)
    axis.plot(x, middle, color=_BLUE, linewidth=1.5)


def _draw_points(axis: Axes, epochs: NDArray[np.float64], values: Sequence[float], color: str) -> None:
    marker = "o" if len(values) <= 40 else ""
    axis.plot(epochs, values, color=color, linewidth=1.5, marker=marker, markersize=3.5, clip_on=False)


def _reach(axis: Axes, low: float | None, high: float | None) -> None:
    """Let the axis include these values, which give the curve its scale."""
    bottom, top = axis.get_ylim()
    axis.set_ylim(bottom if low is None else min(low, bottom), top if high is None else max(high, top))


def _tidy(axis: Axes, epochs: float) -> None:
    axis.set_xlim(0, epochs)
    axis.set_xlabel("epoch", fontsize=9)
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=epochs >= 5))
    axis.tick_params(labelsize=8)
    axis.grid(color=_GRAY, alpha=0.2)
    axis.spines[["top", "right"]].set_visible(False)
