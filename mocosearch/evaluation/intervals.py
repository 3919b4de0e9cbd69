"""How far a figure can be trusted: 95% intervals over the photos that were scored.

They tell how far a figure would move with other photos of the same kind; encoder and gallery stay as they are.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]

RESAMPLES = 2000
_Z95 = 1.959963984540054  # the normal quantile of .975
_BLOCK_DRAWS = 2**20  # photos drawn at once


def interval_of(of_photos: NDArray[np.float64], seed: int = 0) -> Interval | None:
    """Return the interval of the mean of `of_photos` (m,), one number a photo; None where one number says nothing.

    Wilson's where all numbers are 0 or 1, for no resample of equal numbers differs from another; else the bootstrap.
    """
    return intervals_of([of_photos], seed)[0]


def intervals_of(columns: Sequence[NDArray[np.float64]], seed: int = 0) -> list[Interval | None]:
    """Return `interval_of` of each of several arrays; those of one length are resampled together."""
    intervals = {}
    others = []
    for place, column in enumerate(columns):
        checked = _checked(column)
        if bool(np.isin(checked, (0, 1)).all()):
            intervals[place] = wilson_interval(float(checked.mean()), len(checked))
        elif len(checked) > 1:
            others.append(place)
    bootstrapped = _bootstrap([columns[place] for place in others], seed)
    intervals |= dict(zip(others, bootstrapped, strict=True))
    return [intervals.get(place) for place in range(len(columns))]


def difference_intervals(columns: Sequence[NDArray[np.float64]], seed: int = 0) -> list[Interval]:
    """Return the intervals of the means of several arrays (m,) of differences, one a photo: the paired bootstrap.

    Two photos are made up beside those that were scored. They differ as much as the photo that differs most, one in
    each direction (for differences of 0 and 1 that is the adjustment of Bonett and Price 2012). For where few photos
    differ, or few were scored, all of them may differ in one direction by luck, and no resample would know: without
    the two, 4 of 100 photos would decide. All differences 0 give (0, 0).
    """
    return _bootstrap([_with_made_up(_checked(column)) for column in columns], seed)


def wilson_interval(share: float, count: int) -> Interval:
    """Return the 95% interval of a share seen in `count` independent trials; sane near 0 and 1 too."""
    if count < 1 or not 0 <= share <= 1:
        raise ValueError(f"a share between 0 and 1 of at least one trial is needed, not {share} of {count}")
    center = (share + _Z95**2 / (2 * count)) / (1 + _Z95**2 / count)
    half = _Z95 / (1 + _Z95**2 / count) * math.sqrt(share * (1 - share) / count + _Z95**2 / (4 * count**2))
    return max(0.0, center - half), min(1.0, center + half)


def _bootstrap(columns: Sequence[NDArray[np.float64]], seed: int) -> list[Interval]:
    """Return the quantiles .025 and .975 of the mean over resamples of each array."""
    intervals: dict[int, Interval] = {}
    for count in sorted({len(column) for column in columns}):
        places = [place for place, column in enumerate(columns) if len(column) == count]
        means = _resampled_means(np.stack([columns[place] for place in places], axis=1), seed)
        low, high = np.quantile(means, (0.025, 0.975), axis=0)
        intervals |= zip(places, zip(low.tolist(), high.tolist(), strict=True), strict=True)
    return [intervals[place] for place in range(len(columns))]


def _resampled_means(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return the means (RESAMPLES, F) of `values` (m, F) over m photos drawn with replacement."""
    generator = np.random.default_rng(seed)
    count, figures = values.shape
    means = np.empty((RESAMPLES, figures))
    rows = max(1, _BLOCK_DRAWS // count)
    for start in range(0, RESAMPLES, rows):
        block = means[start : start + rows]
        drawn = generator.integers(count, size=(len(block), count))
        drawn += np.arange(len(block))[:, None] * count
        times = np.bincount(drawn.ravel(), minlength=len(block) * count).reshape(len(block), count)
        block[:] = times @ values / count
    return means


def _with_made_up(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = differences[np.abs(differences).argmax()]  # with its sign: swapped encoders swap the interval exactly
    return np.append(differences, (largest, -largest))


def _checked(column: NDArray[np.float64]) -> NDArray[np.float64]:
    if column.ndim != 1 or not len(column) or not np.isfinite(column).all():
        raise ValueError(f"one finite number for each scored photo is needed, not an array of shape {column.shape}")
    return column
