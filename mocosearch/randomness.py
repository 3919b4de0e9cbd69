"""Randomness without hidden state: every number is a pure function of its keys.

So a run that was killed continues with the very numbers it would have drawn, whatever the loader did meanwhile.
"""

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(*keys: int | NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash integers, or broadcastable arrays of them, to uint64 with SplitMix64's finalizer after every key."""
    state = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for key in keys:
            state = (state ^ np.asarray(key).astype(np.uint64)) + _GOLDEN
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return state


def uniforms(*keys: int | NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return `count` numbers in [0, 1) for each broadcast key, shape (..., count)."""
    columns = [np.asarray(key)[..., None] for key in keys]
    bits = mix(*columns, np.arange(count))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(*keys: int, size: int) -> NDArray[np.int64]:
    """Return a permutation of `size` numbers."""
    return np.random.Generator(np.random.Philox(key=int(mix(*keys)))).permutation(size)


def seed_of(*keys: int) -> int:
    """Return a non-negative 63-bit seed for another library's generator."""
    return int(mix(*keys) >> np.uint64(1))
