"""The vectors of a photo in the seven turns that it does not lie in."""

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mocosearch.duplicates.copies import TURNS
from mocosearch.encoders import Encoder
from mocosearch.images.decode_pool import DecodePool
from mocosearch.images.prepared import Prepared
from mocosearch_index.duplicates import Spreading

Float32 = NDArray[np.float32]

_AT_ONCE = 8  # photos whose turns go through the network together


def turned(pixels: Tensor, turn: int) -> Tensor:
    """Turn pictures (..., side, side) as TURNS[turn] says: mirrored from 4 on, then by quarters to the left."""
    mirrored = pixels.flip(-1) if turn >= 4 else pixels
    return torch.rot90(mirrored, turn % 4, (-2, -1))


def embed_turned(pixels: Tensor, encoder: Encoder) -> Float32:
    """Embed prepared pictures, uint8 (B, 3, crop, crop), in their seven other turns: (B, 7, dim).

    The prepared square is turned, not the photo: it is the same up to a pixel of the center crop.
    """
    views = torch.stack([turned(pixels, turn) for turn in range(1, len(TURNS))], dim=1)
    return encoder.embed(views.flatten(0, 1)).reshape(len(pixels), len(TURNS) - 1, -1)


class TurnedPhotos:
    """Reads photos again to embed them in their seven other turns: for a photo that cannot be read, zeros."""

    def __init__(
        self, paths: Sequence[Path], encoder: Encoder, spread: Spreading, progress: Callable[[int], None]
    ) -> None:
        """`paths` by row; `progress` is told the row that was read last."""
        self._paths = paths
        self._encoder = encoder
        self._spread = spread
        self._progress = progress
        self._pool = DecodePool()
        self.unreadable = 0

    def close(self) -> None:
        """End the processes that decode."""
        self._pool.close()

    def __call__(self, rows: NDArray[np.int64]) -> Float32:
        """Return spread unit vectors (r, 7, dim) of the photos at `rows`."""
        vectors = np.zeros((len(rows), len(TURNS) - 1, self._encoder.dim), np.float32)
        photos = ((place, self._paths[row]) for place, row in enumerate(rows.tolist()))
        with closing(self._pool.prepare(photos, self._encoder.preprocessing.geometry, 3 * _AT_ONCE)) as results:
            while batch := list(islice(results, _AT_ONCE)):
                good = [(place, result.pixels) for place, result in batch if isinstance(result, Prepared)]
                if good:
                    pixels = torch.from_numpy(np.stack([pixels for _, pixels in good])).permute(0, 3, 1, 2)
                    seven = embed_turned(pixels, self._encoder)
                    spread = self._spread(seven.reshape(-1, seven.shape[-1])).reshape(seven.shape)
                    vectors[[place for place, _ in good]] = spread
                self.unreadable += len(batch) - len(good)
                self._progress(int(rows[batch[-1][0]]))
        return vectors
