"""Curves of a training run as small drawings: legible in light and dark, at every width, and told in words."""

from collections.abc import Sequence

from mocosearch_app.page.words import count
from mocosearch_app.service.care.training_run import Point, TrainingRun

_WIDTH, _HEIGHT = 240, 80  # of the drawing's own units; it is stretched to its place
_EXPLAINED = {
    "loss": ("Loss", "lower is better"),
    "accuracy": ("Queries that find their key", "among all negatives"),
    "effective_rank": ("Effective rank", "directions in use; 1 is a collapse"),
    "knn_accuracy": ("Probe", "neighbors that vote for a photo's class"),
}
_SHARES = ("accuracy", "knn_accuracy")


def curves(run: TrainingRun) -> str:
    """Draw the figures of a run that are known."""
    return "".join(_curve(name, points, run) for name, points in run.curves.items())


def figure(name: str, value: float) -> str:
    """Return a figure with as many digits as mean something."""
    return f"{value:.0%}" if name in _SHARES else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _curve(name: str, points: Sequence[Point], run: TrainingRun) -> str:
    title, explained = _EXPLAINED[name]
    values = [value for _, value in points]
    low, high, first, last = (figure(name, value) for value in (min(values), max(values), values[0], values[-1]))
    until = points[-1][0]
    length = f"{until:,.1f} epochs" if run.in_epochs else count(round(until), "step")
    return (
        f'<figure class="curve"><figcaption><strong>{title}</strong><span>{explained}</span></figcaption>'
        f'<div class="plot"><span>{high}</span><span>{low}</span>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{title}: from {first} to {last} in {length}">'
        f'<polyline points="{_line(points)}"/></svg></div>'
        f"<p><span>start</span><span>{length}, now {last}</span></p></figure>"
    )


def _line(points: Sequence[Point]) -> str:
    (left, right), (low, high) = ((min(axis), max(axis)) for axis in zip(*points, strict=True))
    across, up = _WIDTH / ((right - left) or 1), _HEIGHT / ((high - low) or 1)
    return " ".join(f"{(x - left) * across:.1f},{_HEIGHT - (y - low) * up:.1f}" for x, y in points)
