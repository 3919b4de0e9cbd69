"""Numbers as people type them."""

import math
from typing import Any

import click


class NumberRange(click.FloatRange):
    """A range without "nan", which passes every comparison with its ends, and without infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; click.BadParameter."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
