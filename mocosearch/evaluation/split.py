"""Which photos a classifier may learn from, and which it is scored on: a pure function of labels and seed."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def stratified_split(labels: NDArray[np.integer], held_out: float, *, seed: int) -> tuple[Indices, Indices]:
    """Split 0 .. n-1 into (kept, held out), both ascending, `held_out` (0 .. 1) of every class in the second.

    A class of at least two photos has one or more on both sides; a class of one photo is kept whole.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"the share that is held out must lie between 0 and 1, not {held_out}")
    generator = np.random.default_rng(seed)
    out = np.zeros(len(labels), dtype=bool)
    for name in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == name))
        if len(members) > 1:
            out[members[: min(max(1, round(held_out * len(members))), len(members) - 1)]] = True
    return np.flatnonzero(~out), np.flatnonzero(out)
