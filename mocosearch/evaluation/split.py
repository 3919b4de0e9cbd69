"""Which photos are learned from or searched, and which are scored: pure functions of labels, parts and seed."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import Unscorable

Indices = NDArray[np.int64]

_TEST = 0.2  # of every class

# What folders and CSV files call the parts of a data set, in any case. Where all three are there, nothing is chosen on
# the validation part: it is one more part to learn from.
_PARTS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "testing": 2}


def part_named(name: str) -> int | None:
    """Return the number of the part that is called `name`, None when that is no part's name."""
    return _PARTS.get(name.casefold())


def held_out_of(parts: Sequence[int]) -> NDArray[np.bool_] | None:
    """Tell which photos are scored, from the number of each one's part: test if there, else validation.

    None when all are of one part, so that there is nothing to tell.
    """
    numbers = np.array(parts, dtype=np.int64)
    last = numbers.max(initial=0)
    return None if (numbers == last).all() else numbers == last


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


def train_and_test(
    labels: NDArray[np.integer], held_out: NDArray[np.bool_] | None, *, seed: int
) -> tuple[Indices, Indices]:
    """Return what a classifier learns from and what it is scored on, both ascending.

    The second is the test part, `held_out` (n,), or without one a fifth of every class of `labels` (n,). Unscorable
    when either is empty.
    """
    if held_out is not None:
        test, train = queries_and_gallery(len(labels), held_out)
        return train, test
    train, test = stratified_split(labels, _TEST, seed=seed)
    if not len(test):
        raise Unscorable("A classifier needs a class of at least 2 photos: add photos to the class folders.")
    return train, test


def queries_and_gallery(count: int, held_out: NDArray[np.bool_] | None) -> tuple[Indices, Indices]:
    """Return which of `count` photos are scored, and among which their neighbors are sought, both ascending.

    With a test part, `held_out` (count,), it is sought for in the rest; without, each photo among all others
    (leave-one-out). Unscorable when the test part is empty or everything.
    """
    if held_out is None:
        return np.arange(count), np.arange(count)
    if held_out.shape != (count,) or held_out.dtype != bool:
        raise ValueError(f"held_out must be ({count},) truth values, not {held_out.dtype} {held_out.shape}")
    queries, gallery = np.flatnonzero(held_out), np.flatnonzero(~held_out)
    if not len(queries) or not len(gallery):
        raise Unscorable(
            f"Of {count:,} photos {len(queries):,} are of the test part and {len(gallery):,} to learn from: put photos "
            "into both parts."
        )
    return queries, gallery


def accuracy_of_guessing(known: NDArray[np.integer], scored: NDArray[np.integer]) -> float:
    """Return the share of labels `scored` (m,) that is right when the most frequent of `known` (n,) is always named.

    Where several are the most frequent, the mean of naming each of them.
    """
    names, counts = np.unique(known, return_counts=True)
    largest = names[counts == counts.max()]
    return float(np.isin(scored, largest).mean() / len(largest))


def told_of_unknown_classes(known: NDArray[np.integer], scored: NDArray[np.integer]) -> Iterator[str]:
    """Yield a line when some labels of `scored` (m,) are not among `known` (n,), so that no classifier names them."""
    if unknown := np.count_nonzero(~np.isin(scored, known)):
        yield f"{unknown:,} of the scored photos are of a class without photos to learn from, which counts as wrong."
