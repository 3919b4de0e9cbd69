"""How far a figure can be trusted."""

import math

_Z95 = 1.959963984540054  # the normal quantile of .975


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Return the 95% interval of a share seen in `count` independent trials; sane near 0 and 1 too."""
    if count < 1 or not 0 <= share <= 1:
        raise ValueError(f"a share between 0 and 1 of at least one trial is needed, not {share} of {count}")
    center = (share + _Z95**2 / (2 * count)) / (1 + _Z95**2 / count)
    half = _Z95 / (1 + _Z95**2 / count) * math.sqrt(share * (1 - share) / count + _Z95**2 / (4 * count**2))
    return max(0.0, center - half), min(1.0, center + half)
