"""The different contents of a library as they are compared: where one file of each is, and where its vector lies."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch_index.duplicates import Spreading, all_scales, likeness, nearest_others

Float16 = NDArray[np.float16]
Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

NEAREST = 10  # others of each photo that are looked at


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The different contents of a library: where a file of each is, its spread unit vector (n, dim), scale (n,)."""

    paths: list[Path]
    vectors: Float16
    scales: Float32
    spread: Spreading

    @classmethod
    def spread_out(cls, paths: list[Path], vectors: Float16, progress: Callable[[int], None]) -> "Contents":
        """Spread the stored vectors (n, dim), in place; `progress` is told rows placed."""
        spread = Spreading(vectors)
        spread.all(vectors)
        return cls(paths, vectors, all_scales(vectors, progress), spread)

    def nearest(self, queries: Float32, own: Int64) -> tuple[Float32, Int64]:
        """Return likenesses and rows (q, 10) of those nearest to spread queries (q, dim), views of the rows `own`."""
        cosines, rows = nearest_others(queries, own, self.vectors, NEAREST)
        return likeness(cosines, self.scales[own, None], self.scales[rows]), rows

    def to_originals(self, copies: Float32, rows: Int64, scales: Float32) -> Float32:
        """Return the likeness (n,) of spread copies (n, dim), which have these scales, to the originals at `rows`."""
        cosines = np.einsum("nd,nd->n", copies, self.vectors[rows].astype(np.float32))
        return likeness(cosines, scales, self.scales[rows])
