"""Health while training: what the encoder would be if the run ended now, on a fixed sample of the run's photos.

Nothing of training is touched: a copy of the query encoder is looked at, in inference mode, and no generator is used.
When to look is a function of the step alone, so a resumed run gives the figures of one that never stopped.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from mocosearch import randomness
from mocosearch.distributed import world_size
from mocosearch.encoders import Encoder, Preprocessing
from mocosearch.errors import BadCheckpoint, TrainingStopped
from mocosearch.evaluation.health import alignment, label_free_health
from mocosearch.evaluation.knn import evaluate_knn
from mocosearch.evaluation.labels.labelled import check_classes, find_labelled
from mocosearch.images.decode import Undecodable, decode, read_file
from mocosearch.images.packed import PackedPhoto, images_of
from mocosearch.images.view_parameters import draw_parameters
from mocosearch.images.views import as_pixels, make_view
from mocosearch.recipes import Recipe
from mocosearch.training.build import preprocessing_of

PHOTOS = 256  # of the sample
ALIGNED = 128  # of them, in two augmented views each
PROBED = 512  # labelled photos
SHARE = 0.03  # of the run's work that health may cost, and as much again for a probe
_FORWARDS_A_STEP = 4  # of an image that is trained on: query, its gradients, which cost two, and key
_FIXED = -1  # an epoch that is never trained: its order of the photos and its views are those of the sample
_BATCH = 64


@dataclass(frozen=True)
class HealthReport:
    """The health of the query encoder after `step` steps; the figures are those of `evaluation.health`."""

    step: int
    epoch: float
    effective_rank: float
    uniformity: float
    feature_spread: float
    alignment: float
    collapsed: bool
    knn_accuracy: float | None  # of the probe, leave-one-out


@dataclass(frozen=True)
class Probe:
    """Labelled photos that training never sees, ready for the encoder."""

    folder: Path
    pixels: Tensor  # uint8 (n, 3, crop, crop)
    labels: NDArray[np.int64]  # (n,)
    stray: int  # photos of the folder that lie in no class folder

    @classmethod
    def read(cls, folder: Path, preprocessing: Preprocessing) -> Self:
        """Decode up to 512 photos of a folder of class folders.

        Raises NoPhotos or NotLabelled unless those that can be read are of two classes, one of them with two photos.
        """
        photos = find_labelled(folder).thinned(PROBED)

        def prepared(path: Path) -> Tensor | None:
            try:
                return preprocessing.prepare(decode(read_file(path), short_side=preprocessing.resize).image)
            except Undecodable:
                return None

        with ThreadPoolExecutor() as pool:
            pixels = list(pool.map(prepared, photos.paths))
        readable = np.array([picture is not None for picture in pixels])
        check_classes(photos.labels[readable], folder, unreadable=int((~readable).sum()))
        read = torch.stack([picture for picture in pixels if picture is not None])
        return cls(folder, read, photos.labels[readable], photos.stray)

    def accuracy(self, encoder: Encoder) -> float:
        """Return the kNN accuracy, leave-one-out over all of them: a test part would be few photos."""
        return evaluate_knn(_embed(encoder, self.pixels), self.labels).figures[0].value


class Monitor:
    """Looks at an encoder on the run's sample, two augmented views of a part of it, and the probe if there is one."""

    def __init__(
        self,
        pixels: NDArray[np.uint8],
        photos: Sequence[PackedPhoto],
        recipe: Recipe,
        device: torch.device,
        probe: Probe | None,
    ) -> None:
        preprocessing = preprocessing_of(recipe)
        chosen = np.sort(randomness.permutation(recipe.seed, _FIXED, size=len(photos))[:PHOTOS])
        images = list(images_of(pixels, [photos[i] for i in chosen]))
        self._sample = torch.stack([preprocessing.prepare(Image.fromarray(image)) for image in images])
        sizes = np.array([image.shape[:2] for image in images[:ALIGNED]])
        self._views = []
        for view in range(2):
            drawn = draw_parameters(
                recipe.views, sizes, seed=recipe.seed, epoch=_FIXED, ids=chosen[:ALIGNED], view=view
            )
            self._views.append(as_pixels(make_view(images[:ALIGNED], drawn, recipe.views, device), recipe.views))
        self._probe = probe

    def look(self, encoder: Encoder, *, step: int, epoch: float) -> HealthReport:
        """Measure the encoder; raises TrainingStopped when it gives numbers that are not finite."""
        try:
            health = label_free_health(_embed(encoder, self._sample))
            first, second = (_embed(encoder, view) for view in self._views)
            knn = self._probe.accuracy(encoder) if self._probe else None
        except BadCheckpoint:
            raise TrainingStopped(
                f"The encoder gives numbers that are not finite after step {step}: lower the learning rate "
                "(--set optimizer.lr=...) and start again; the last checkpoint is intact."
            ) from None
        return HealthReport(
            step,
            epoch,
            health.effective_rank,
            health.uniformity,
            health.feature_spread,
            alignment(first, second),
            health.collapsed,
            knn,
        )


def epochs_between_looks(recipe: Recipe, *, photos: int, probed: bool) -> int:
    """Return how many epochs lie between two looks, so that they cost at most their share of the work.

    Counted in images through the backbone, not in seconds: the same on every machine and after every resume. All
    ranks wait for the one that looks.
    """
    area = (recipe.encoder_input.crop / recipe.views.crop) ** 2
    sample = min(PHOTOS, photos)
    health = area * sample + 2 * min(ALIGNED, sample)
    epoch = SHARE * _FORWARDS_A_STEP * photos
    return ceil(world_size() * max(health, (health + area * PROBED) / 2 if probed else 0) / epoch)


def _embed(encoder: Encoder, pixels: Tensor) -> NDArray[np.float32]:
    return np.concatenate([encoder.embed(batch) for batch in torch.split(pixels, _BATCH)])
