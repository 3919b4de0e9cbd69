"""Which images a step takes, and what is cut from them: pure functions of (seed, step). numpy only."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mocosearch import randomness
from mocosearch.images.packed import Pixels, cut, images_at, map_pixels, write_flat
from mocosearch.images.view_parameters import ViewParameters, draw_parameters, largest_crops

if TYPE_CHECKING:
    from mocosearch.recipes import ViewsSection


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, photos: int) -> NDArray[np.int64]:
    return randomness.permutation(seed, epoch, size=photos)


@dataclass(frozen=True)
class BatchOrder:
    """Every epoch visits the photos once, in a new order; a rank takes its own part of each batch."""

    seed: int
    places: NDArray[np.int64]  # (N, 3): start, height and width of each photo in the pack
    batch: int  # of all ranks together
    own: slice  # this rank's part of it
    views: "ViewsSection"
    views_per_image: int
    only_whole: bool = True  # batches: what is left at the end of an epoch is left out, else it is a smaller batch

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches in an epoch."""
        count = len(self.places)
        return count // self.batch if self.only_whole else ceil(count / self.batch)

    @property
    def images(self) -> int:
        """The number of images in this rank's part of a whole batch."""
        return len(range(self.batch)[self.own])

    def ids(self, step: int) -> NDArray[np.int64]:
        """Return the positions of this rank's images in the run's list of photos."""
        epoch, position = divmod(step, self.steps_per_epoch)
        order = _order(self.seed, epoch, len(self.places))
        return order[position * self.batch : (position + 1) * self.batch][self.own]

    def parameters(self, step: int) -> list[ViewParameters]:
        """Draw what happens to this rank's images in each view."""
        ids, epoch = self.ids(step), step // self.steps_per_epoch
        sizes = self.places[ids, 1:]
        return [
            draw_parameters(self.views, sizes, seed=self.seed, epoch=epoch, ids=ids, view=view)
            for view in range(self.views_per_image)
        ]


@dataclass(frozen=True)
class Crops:
    """Reads the crops of a step from the pack."""

    pixels_path: Path
    order: BatchOrder

    @cached_property
    def _pixels(self) -> Pixels:  # mapped where it is first read: in the process that does the work
        return map_pixels(self.pixels_path)

    def of_view(self, step: int, parameters: ViewParameters) -> list[Pixels]:
        """Return the crops (h, w, 3) of one view, parts of the mapped pixels."""
        return cut(list(images_at(self._pixels, self.order.places[self.order.ids(step)])), parameters.boxes)

    def write_all(self, step: int, out: Pixels) -> None:
        """Write the bytes of the crops of all views, one after the other."""
        for parameters in self.order.parameters(step):
            end = write_flat(self.of_view(step, parameters), out)
            out = out[end:]

    def most_bytes(self) -> int:
        """Return how many bytes `write_all` writes at most: the largest crop of the largest images, in every view."""
        sizes = np.sort(largest_crops(self.order.places[:, 1:]).prod(axis=1))
        return 3 * self.order.views_per_image * int(sizes[-self.order.images :].sum())

    def __reduce__(self) -> tuple[type["Crops"], tuple[Path, BatchOrder]]:
        """Leave out the mapped pixels, which pickle would copy."""
        return Crops, (self.pixels_path, self.order)
