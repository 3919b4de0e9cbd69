"""What happens to each image of a batch, drawn at random: which box is cut, how it is colored, blurred and flipped.

The parameters follow the distributions of torchvision's RandomResizedCrop, ColorJitter, RandomGrayscale and
GaussianBlur and depend on nothing but (seed, epoch, image, view). numpy only: whoever draws them starts quickly.
"""

from dataclasses import dataclass, fields
from math import ceil, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mocosearch import randomness

if TYPE_CHECKING:
    from mocosearch.recipes import ViewsSection

_CROP_TRIES = 10
_RATIO = (3 / 4, 4 / 3)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ViewParameters:
    """What happens to each of B images; every array has B entries along its first axis."""

    boxes: Ints  # (B, 4): top, left, height, width in pixels of the image
    flip: NDArray[np.bool_]
    jitter: NDArray[np.bool_]  # whether the color is jittered at all
    jitter_order: Ints  # (B, 4): a permutation of color.OPERATIONS
    jitter_amount: Floats  # (B, 4): brightness, contrast, saturation factors and hue shift
    grayscale: NDArray[np.bool_]
    blur: NDArray[np.bool_]
    sigma: Floats  # (B,): standard deviation of the blur in pixels of the view

    def __getitem__(self, part: slice) -> "ViewParameters":
        """Return the parameters of some of the images."""
        return ViewParameters(*(getattr(self, field.name)[part] for field in fields(self)))


def packed_short_side(views: "ViewsSection") -> int:
    """Return the short side, in pixels, from which the smallest crop is not enlarged, and `fit_photos` shrinks none."""
    fitting = views.crop / views.fit_photos if views.fit_photos else 0
    return ceil(max(views.crop / sqrt(views.scale[0]), fitting))


def largest_crops(sizes: Ints) -> Ints:
    """Return the height and width (B, 2) that no crop of images of `sizes` (B, 2) exceeds."""
    rounded = 2  # pixels that rounding a box to whole ones may add
    largest: Ints = np.minimum(sizes, np.ceil(_RATIO[1] * sizes[:, ::-1]).astype(np.int64) + rounded)
    return largest


def draw_parameters(
    views: "ViewsSection", sizes: Ints, *, seed: int, epoch: int, ids: Ints, view: int
) -> ViewParameters:
    """Draw the parameters of one view of B images of (height, width) `sizes` (B, 2)."""
    draws = randomness.uniforms(seed, epoch, ids, view, count=4 * _CROP_TRIES + 13)
    tries, rest = draws[:, : 4 * _CROP_TRIES].reshape(len(ids), _CROP_TRIES, 4), draws[:, 4 * _CROP_TRIES :]
    jitter = views.color_jitter
    low = np.array(
        [
            max(0, 1 - jitter.brightness),
            max(0, 1 - jitter.contrast),
            max(0, 1 - jitter.saturation),
            -jitter.hue,
        ]
    )
    high = np.array([1 + jitter.brightness, 1 + jitter.contrast, 1 + jitter.saturation, jitter.hue])
    return ViewParameters(
        boxes=_crop_boxes(tries, sizes, views.scale),
        flip=rest[:, 0] < views.flip,
        jitter=rest[:, 1] < jitter.p,
        jitter_order=rest[:, 2:6].argsort(axis=1),
        jitter_amount=low + (high - low) * rest[:, 6:10],
        grayscale=rest[:, 10] < views.grayscale,
        blur=rest[:, 11] < views.blur.p,
        sigma=views.blur.sigma[0] + (views.blur.sigma[1] - views.blur.sigma[0]) * rest[:, 12],
    )


def _crop_boxes(tries: Floats, sizes: Ints, scale: tuple[float, float]) -> Ints:
    """Choose boxes (B, 4) as RandomResizedCrop does: the first of ten tries that fits, else the largest center crop."""
    height, width = sizes[:, :1].astype(float), sizes[:, 1:].astype(float)  # (B, 1)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * tries[..., 0])  # (B, tries)
    ratio = np.exp(np.log(_RATIO[0]) + (np.log(_RATIO[1]) - np.log(_RATIO[0])) * tries[..., 1])
    box_width, box_height = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
    fits = (box_width > 0) & (box_width <= width) & (box_height > 0) & (box_height <= height)
    top = np.floor(tries[..., 2] * (height - box_height + 1))
    left = np.floor(tries[..., 3] * (width - box_width + 1))
    boxes = np.stack([top, left, box_height, box_width], axis=-1)[np.arange(len(sizes)), fits.argmax(axis=1)]
    largest_width = np.minimum(width, np.rint(height * _RATIO[1]))[:, 0]
    largest_height = np.minimum(height, np.rint(width / _RATIO[0]))[:, 0]
    top, left = (height[:, 0] - largest_height) // 2, (width[:, 0] - largest_width) // 2
    center = np.stack([top, left, largest_height, largest_width], axis=-1)
    return np.where(fits.any(axis=1)[:, None], boxes, center).astype(np.int64)
