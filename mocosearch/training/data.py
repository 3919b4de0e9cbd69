"""Training batches as a pure function of (seed, step): which images, and which views of them.

Worker processes prepare them ahead of the trainer. On a CPU they make the whole views; for a GPU they read the crops,
whose bytes are copied there and become views on the GPU itself.
"""

import os
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from mocosearch.distributed import own_part, world_size
from mocosearch.images.pack import Pack
from mocosearch.images.packed import PackedPhoto, Pixels, places_of
from mocosearch.images.views import view_of_flat
from mocosearch.methods import METHODS
from mocosearch.recipes import Recipe
from mocosearch.training.batch_order import BatchOrder, Crops
from mocosearch.training.cpu_views import CpuViews, as_views, views_bytes
from mocosearch.training.loader import Loader

MOST_GPU_WORKERS = 4


def default_workers(device: torch.device) -> int:
    """Return how many processes prepare batches for a rank: a fixed rule by device and number of cores."""
    if device.type == "cpu":
        return 1
    cores = (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, min(MOST_GPU_WORKERS, cores - 1))


class ViewBatches:
    """The views of each step's images, in an order that says which."""

    def __init__(
        self, pack: Pack, photos: Sequence[PackedPhoto], order: BatchOrder, device: torch.device, *, workers: int = 0
    ) -> None:
        self.pack = pack  # kept open: its pixels are in use
        self.photos = photos
        self.device = device
        self.workers = workers
        self.order = order
        self.steps_per_epoch = order.steps_per_epoch
        crops = Crops(pack.pixels_path, order)
        if device.type == "cpu":
            self._loader = Loader(CpuViews(crops), views_bytes(order), workers)
        else:
            self._loader = Loader(crops.write_all, crops.most_bytes(), workers, pinned=True)
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]

    @classmethod
    def of_recipe(
        cls, pack: Pack, photos: Sequence[PackedPhoto], recipe: Recipe, device: torch.device, *, workers: int = 0
    ) -> Self:
        """Return a recipe's batches: all of one size, and of each image as many views as the method takes."""
        order = BatchOrder(
            seed=recipe.seed,
            places=places_of(photos),
            batch=recipe.batch,
            own=own_part(recipe.batch // world_size()),
            views=recipe.views,
            views_per_image=METHODS[recipe.method.name].views_per_image,
        )
        return cls(pack, photos, order, device, workers=workers)

    @property
    def pixels(self) -> Pixels:
        """The mapped pixels of all photos."""
        return self.pack.pixels()

    def __call__(self, step: int) -> tuple[list[Tensor], Tensor]:
        """Return this rank's views, float32 (B, 3, crop, crop) each, and its images' positions in the list.

        They are overwritten by the next call. Raises LoaderFailed when a worker died.
        """
        ids = torch.from_numpy(self.order.ids(step).copy())
        if self.device.type == "cpu":
            return as_views(self._loader(step), self.order, step), ids
        return self._on_gpu(step), ids

    def _on_gpu(self, step: int) -> list[Tensor]:
        self._copied.synchronize()  # before a worker may overwrite the last batch
        parameters = self.order.parameters(step)
        ends = [3 * int(drawn.boxes[:, 2:].prod(axis=1).sum()) for drawn in parameters]
        flat = torch.from_numpy(self._loader(step)[: sum(ends)]).to(self.device, non_blocking=True)
        self._copied.record()
        parts = flat.split(ends)  # type: ignore[no-untyped-call]
        return [view_of_flat(part, drawn, self.order.views) for part, drawn in zip(parts, parameters, strict=True)]

    def start(self) -> None:
        """Start the workers, which takes some seconds, ahead of the first batch."""
        self._loader.start()

    def close(self) -> None:
        """End the workers; the next batch starts new ones."""
        self._loader.close()
