"""Figures as a person reads them."""

from math import log

_SIZES = ("bytes", "kB", "MB", "GB", "TB")
_UNITS = ((3600, "hour"), (60, "minute"))


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: float) -> str:
    """Return bytes in the unit that suits them."""
    power = min(int(log(max(number, 1), 1000)), len(_SIZES) - 1)
    number /= 1000**power
    return f"{number:,.1f} {_SIZES[power]}" if power and number < 100 else f"{number:,.0f} {_SIZES[power]}"


def time_left(seconds: float) -> str:
    """Return about how long something still takes."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"about {count(round(seconds / length), unit)} left"
    return "less than a minute left"


def listed(counts: dict[str, int]) -> str:
    """Return what there is of each kind, without those of which there is nothing."""
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number)
