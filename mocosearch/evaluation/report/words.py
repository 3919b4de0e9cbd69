"""Numbers as people read them, the same in table and report."""

import math

Interval = tuple[float, float]


def number(value: float) -> str:
    """Return three decimals, or fewer where they would say nothing: `0.642`, `153.2`, `21,600`."""
    return f"{value:z,.{_decimals(value)}f}" if math.isfinite(value) else "not defined"


def signed(difference: float, value: float) -> str:
    """Return a difference with its sign, and as many decimals as its `value` has."""
    if not math.isfinite(difference):
        return "not defined"
    text = f"{difference:+z,.{_decimals(value)}f}"
    return text if text.strip("+0.") else text.removeprefix("+")


def _decimals(value: float) -> int:
    return 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0


def interval(bounds: Interval | None) -> str:
    """Return a 95% interval, nothing where there is none."""
    return f"{number(bounds[0])} to {number(bounds[1])}" if bounds else ""


def fact(value: float | str) -> str:
    """Return a count or a choice: `21,600`, `0.07`, `1e-05`."""
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
