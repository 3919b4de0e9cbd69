"""Numbers as people read them, the same in table and report."""

import math

Interval = tuple[float, float]


def number(value: float) -> str:
    """Return three decimals, or as many as say something: `0.642`, `0.00029`, `153.2`, `21,600`."""
    return f"{value:z,.{_decimals(value)}f}" if math.isfinite(value) else "not defined"


def signed(difference: float, value: float) -> str:
    """Return a difference with its sign, and as many decimals as its `value` has."""
    if not math.isfinite(difference):
        return "not defined"
    text = f"{difference:+z,.{_decimals(value)}f}"
    return text if text.strip("+0.") else text.removeprefix("+")


def _decimals(value: float) -> int:
    size = abs(value)
    if 5e-6 <= size < 0.01:  # such as recall@1 among thousands
        return 5
    return 3 if size < 10 else 1 if size < 1000 else 0


def interval(bounds: Interval | None, value: float) -> str:
    """Return a 95% interval, with as many decimals as its `value` has; nothing where there is none."""
    return " to ".join(f"{bound:z,.{_decimals(value)}f}" for bound in bounds or ())


def fact(value: float | str) -> str:
    """Return a count or a choice: `21,600`, `0.07`, `1e-05`."""
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
