"""Training batches as a pure function of (seed, step): which images, and which views of them."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mocosearch import randomness
from mocosearch.distributed import own_part, world_size
from mocosearch.images.pack import PackedPhoto, images_of
from mocosearch.images.views import draw_parameters, make_view
from mocosearch.methods import METHODS
from mocosearch.recipes import Recipe


class ViewBatches:
    """Every epoch visits the images once, in a new order, in whole batches; each image gives the method's views."""

    def __init__(
        self, pixels: NDArray[np.uint8], photos: Sequence[PackedPhoto], recipe: Recipe, device: torch.device
    ) -> None:
        self.pixels = pixels
        self.photos = photos
        self.recipe = recipe
        self.device = device
        self.views_per_image = METHODS[recipe.method.name].views_per_image
        self.steps_per_epoch = len(photos) // recipe.batch
        self._order: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, dtype=np.int64))

    def __call__(self, step: int) -> tuple[list[Tensor], Tensor]:
        """Return this rank's views, float32 (B, 3, crop, crop) each, and its images' positions in the list."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if self._order[0] != epoch:
            order = randomness.permutation(self.recipe.seed, epoch, size=len(self.photos))
            self._order = epoch, order
        own = own_part(self.recipe.batch // world_size())
        ids = self._order[1][position * self.recipe.batch :][own]
        photos = [self.photos[i] for i in ids]
        images = list(images_of(self.pixels, photos))
        sizes = np.array([[photo.height, photo.width] for photo in photos])
        views = []
        for view in range(self.views_per_image):
            drawn = draw_parameters(self.recipe.views, sizes, seed=self.recipe.seed, epoch=epoch, ids=ids, view=view)
            views.append(make_view(images, drawn, self.recipe.views, self.device))
        return views, torch.from_numpy(ids)
