"""Two augmented views of every image of a batch, cut and colored on the device that trains.

A batch of images goes through each operation at once, with parameters of its own for every sample. They follow the
distributions of torchvision's RandomResizedCrop, ColorJitter, RandomGrayscale and GaussianBlur and depend on
nothing but (seed, epoch, image, view). Crop, antialiased resize, flip and blur are linear and separable: each is two
matrix products, rows then columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mocosearch import randomness
from mocosearch.images import color
from mocosearch.recipes import ViewsSection

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_CROP_TRIES = 10
_RATIO = (3 / 4, 4 / 3)
_IMAGES_AT_ONCE = 32  # bounds the float copy of the uncropped images

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


def packed_short_side(views: ViewsSection) -> int:
    """Return the short side, in pixels, from which the smallest crop is not enlarged."""
    return ceil(views.crop / sqrt(views.scale[0]))


def draw_parameters(views: ViewsSection, sizes: Ints, *, seed: int, epoch: int, ids: Ints, view: int) -> ViewParameters:
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


def make_view(
    images: Sequence[NDArray[np.uint8]], parameters: ViewParameters, views: ViewsSection, device: torch.device
) -> Tensor:
    """Turn B images (h, w, 3) of any size into one normalized float32 view (B, 3, crop, crop), channels last."""
    x = crop_and_resize(images, parameters, views.crop, device)
    for operation in views.order:
        if operation == "color_jitter":
            x = color.jitter(x, parameters.jitter, parameters.jitter_order, parameters.jitter_amount)
        elif operation == "grayscale":
            x = color.to_gray_where(x, parameters.grayscale)
        else:
            x = blur_where(x, parameters.blur, parameters.sigma)
    mean = torch.tensor(IMAGENET_MEAN, device=device)[:, None, None]
    std = torch.tensor(IMAGENET_STD, device=device)[:, None, None]
    return ((x - mean) / std).contiguous(memory_format=torch.channels_last)


def crop_and_resize(
    images: Sequence[NDArray[np.uint8]], parameters: ViewParameters, size: int, device: torch.device
) -> Tensor:
    """Cut each image's box, resize it with antialiasing and flip it: float32 (B, 3, size, size) in [0, 1].

    The same as torchvision's `resized_crop(antialias=True)` and `hflip` on float images. The flip comes first here;
    it commutes with all that follows.
    """
    out = []
    for start in range(0, len(images), _IMAGES_AT_ONCE):
        part = slice(start, start + _IMAGES_AT_ONCE)
        crops = [
            image[top : top + height, left : left + width]
            for image, (top, left, height, width) in zip(images[part], parameters.boxes[part], strict=True)
        ]
        pixels = _padded(crops).to(device).float() / 255  # (b, H, W, 3), the crop in the upper left corner
        heights = torch.tensor([len(crop) for crop in crops], device=device)
        widths = torch.tensor([crop.shape[1] for crop in crops], device=device)
        flip = torch.from_numpy(parameters.flip[part]).to(device)
        rows = resize_matrix(heights, size, pixels.shape[1])  # (b, size, H)
        columns = resize_matrix(widths, size, pixels.shape[2])  # (b, size, W)
        columns = torch.where(flip[:, None, None], columns.flip(1), columns)
        out.append(torch.einsum("bsh,bhwc,btw->bcst", rows, pixels, columns))
    return torch.cat(out)


def resize_matrix(lengths: Tensor, size: int, padded: int) -> Tensor:
    """Return float32 (B, size, padded): the antialiased bilinear resize of `lengths` (B,) pixels to `size`.

    A triangle filter as wide as the larger of the two pixel pitches, as in torch's antialiased interpolation.
    """
    scale = (lengths.double() / size)[:, None, None]  # input pixels an output pixel
    centers = scale * (torch.arange(size, device=lengths.device) + 0.5)[:, None]  # (B, size, 1)
    positions = torch.arange(padded, device=lengths.device) + 0.5  # (padded,)
    weights = (1 - (positions - centers).abs() / scale.clamp(min=1)).clamp(min=0)
    weights = weights * (positions < lengths[:, None, None])
    return (weights / weights.sum(dim=2, keepdim=True)).float()


def blur_where(x: Tensor, chosen: NDArray[np.bool_], sigma: Floats) -> Tensor:
    """Blur the chosen images of (B, 3, S, S), each with its own standard deviation, edges mirrored."""
    index = np.flatnonzero(chosen)
    if len(index) == 0:
        return x
    matrix = blur_matrix(torch.from_numpy(sigma[index]).to(x.device), x.shape[-1])  # (b, S, S)
    where = torch.from_numpy(index).to(x.device)
    x[where] = torch.einsum("bsh,bchw,btw->bcst", matrix, x[where], matrix)
    return x


def blur_matrix(sigma: Tensor, size: int) -> Tensor:
    """Return float32 (B, size, size): a normalized Gaussian of `sigma` (B,) pixels cut at 3 sigma, edges reflected."""
    reach = min(int(torch.ceil(3 * sigma.max())), size - 1)
    offsets = torch.arange(-reach, reach + 1, device=sigma.device)
    kernel = torch.exp(-0.5 * (offsets / sigma[:, None]) ** 2) * (offsets.abs() <= torch.ceil(3 * sigma[:, None]))
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).float()  # (B, 2 reach + 1)
    rows = torch.arange(size, device=sigma.device)[:, None].expand(size, len(offsets))
    columns = (rows + offsets).abs()
    columns = torch.where(columns >= size, 2 * (size - 1) - columns, columns)  # reflected, the edge itself once
    matrix = torch.zeros(len(sigma), size, size, device=sigma.device)
    return matrix.index_put_(
        (torch.arange(len(sigma), device=sigma.device)[:, None, None], rows, columns),
        kernel[:, None, :].expand(-1, size, -1),
        accumulate=True,
    )


def _padded(crops: Sequence[NDArray[np.uint8]]) -> Tensor:
    height, width = max(len(crop) for crop in crops), max(crop.shape[1] for crop in crops)
    batch = np.zeros((len(crops), height, width, 3), dtype=np.uint8)
    for row, crop in zip(batch, crops, strict=True):
        row[: crop.shape[0], : crop.shape[1]] = crop
    return torch.from_numpy(batch)
