"""Which queries a report shows with their neighbors: few, of many classes, those that go well and those that do not."""

import numpy as np
from numpy.typing import NDArray

from mocosearch import randomness
from mocosearch.evaluation.neighbors import Neighbors
from mocosearch.evaluation.outcome import Examples

_QUERIES = 8


def pick_examples(
    queries: NDArray[np.int64], neighbors: Neighbors, hits: NDArray[np.bool_], groups: NDArray[np.int64]
) -> Examples:
    """Pick 8 of m queries, or all where there are fewer: half of them with misses, as far as there are such.

    `queries` (m,) are places of photos, `hits` (m, k) which neighbors are right, `groups` (m,) numbers of what the
    queries are to be spread over, classes for example. The same input gives the same queries, in ascending place.
    """
    shuffled = randomness.permutation(0, size=len(queries))
    flawless = hits[shuffled].all(axis=1)
    right, wrong = shuffled[flawless], shuffled[~flawless]
    wanted = max(_QUERIES // 2, _QUERIES - len(right))
    used = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    picked = _spread(wrong, groups, used, wanted)
    picked += _spread(right, groups, used, _QUERIES - len(picked))
    rows = np.sort(np.array(picked, dtype=np.int64))
    return Examples(queries[rows], neighbors.indices[rows], neighbors.scores[rows], hits[rows])


def _spread(rows: NDArray[np.int64], groups: NDArray[np.int64], used: NDArray[np.int64], count: int) -> list[int]:
    """Return up to `count` of `rows`, each time the first of a group that was `used` least; count that in `used`."""
    picked: list[int] = []
    for _ in range(min(count, len(rows))):
        position = used[groups[rows]].argmin()
        picked.append(int(rows[position]))
        used[groups[rows[position]]] += 1
        rows = np.delete(rows, position)
    return picked
