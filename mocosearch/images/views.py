"""Augmented views of the images of a batch, each operation on many images at once, each image with its own parameters.

Cutting and resizing is done in the way that suits the device, with the same result: image by image on a CPU, which
touches only the pixels that a filter needs; on a GPU as two matrix products for the whole batch, rows then columns.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from mocosearch.images import color
from mocosearch.images.packed import Pixels, cut, write_flat
from mocosearch.images.view_parameters import Floats, ViewParameters

if TYPE_CHECKING:
    from mocosearch.recipes import ViewsSection

_VALUES_AT_ONCE = 1 << 20  # of the images that a CPU works on together: as many as its cache holds
_CROPS_AT_ONCE = 32  # bounds the float copy of the uncropped images on a GPU


def make_view(
    images: Sequence[Pixels], parameters: ViewParameters, views: "ViewsSection", device: torch.device
) -> Tensor:
    """Turn B images (h, w, 3) of any size into one normalized float32 view (B, 3, crop, crop), channels last."""
    crops = cut(images, parameters.boxes)
    if device.type == "cpu":
        out = torch.empty(len(images), views.crop, views.crop, 3)
        view_on_cpu(crops, parameters, views, out)
        return out.permute(0, 3, 1, 2)
    flat = np.empty(sum(crop.size for crop in crops), dtype=np.uint8)
    write_flat(crops, flat)
    return view_of_flat(torch.from_numpy(flat).to(device), parameters, views)


def as_pixels(view: Tensor, views: "ViewsSection") -> Tensor:
    """Turn a normalized view (B, 3, H, W) back into pixels, uint8 on the CPU, which is what an encoder takes."""
    mean, std = _normalization(views, view.device)
    return ((view * std + mean) * 255).round().clamp(0, 255).to(torch.uint8).cpu()


def view_on_cpu(crops: Sequence[Pixels], parameters: ViewParameters, views: "ViewsSection", out: Tensor) -> None:
    """Write the view of B crops to `out`, float32 (B, crop, crop, 3), some images at a time."""
    together = max(1, _VALUES_AT_ONCE // (3 * views.crop**2))
    for start in range(0, len(crops), together):
        part = slice(start, start + together)
        x = resize_each(crops[part], views.crop)
        out[part] = augment(x, parameters[part], views).permute(0, 2, 3, 1)


def view_of_flat(flat: Tensor, parameters: ViewParameters, views: "ViewsSection") -> Tensor:
    """Return the view, channels last, of crops whose bytes lie in `flat` (uint8) one after the other."""
    x = augment(resize_flat(flat, parameters.boxes[:, 2:], views.crop), parameters, views)
    return x.contiguous(memory_format=torch.channels_last)


def augment(x: Tensor, parameters: ViewParameters, views: "ViewsSection") -> Tensor:
    """Flip, color, blur and normalize resized crops (B, 3, S, S) in [0, 1]; `x` itself is overwritten.

    The flip comes first, not last as in the papers; it commutes with all that follows.
    """
    flipped = torch.from_numpy(np.flatnonzero(parameters.flip)).to(x.device)
    x[flipped] = x[flipped].flip(3)
    for operation in views.order:
        if operation == "color_jitter":
            x = color.jitter(x, parameters.jitter, parameters.jitter_order, parameters.jitter_amount)
        elif operation == "grayscale":
            x = color.to_gray_where(x, parameters.grayscale)
        else:
            x = blur_where(x, parameters.blur, parameters.sigma)
    mean, std = _normalization(views, x.device)
    return x.sub_(mean).div_(std)


def _normalization(views: "ViewsSection", device: torch.device) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation, (3, 1, 1) each."""
    mean, std = (torch.tensor(values, device=device)[:, None, None] for values in (views.mean, views.std))
    return mean, std


def resize_each(crops: Sequence[Pixels], size: int) -> Tensor:
    """Resize crops (h, w, 3), antialiased, one by one on the CPU: float32 (B, 3, size, size) in [0, 1].

    The very function behind torchvision's `resized_crop(antialias=True)`.
    """
    out = torch.empty(len(crops), 3, size, size)
    for row, crop in zip(out, crops, strict=True):
        pixels = torch.from_numpy(np.array(crop, dtype=np.float32)).permute(2, 0, 1)
        resized = F.interpolate(pixels[None], size=(size, size), mode="bilinear", antialias=True)[0]
        torch.mul(resized, 1 / 255, out=row)
    return out


def resize_flat(flat: Tensor, sizes: NDArray[np.int64], size: int) -> Tensor:
    """Resize B crops of `sizes` (B, 2), antialiased, many at once: float32 (B, 3, size, size) in [0, 1].

    `flat` holds their bytes, (h, w, 3) each, one after the other.
    """
    ends = torch.from_numpy(sizes.prod(axis=1).cumsum())  # in pixels
    starts = torch.cat([ends.new_zeros(1), ends[:-1]]).to(flat.device)
    pixels = flat[: 3 * int(sizes.prod(axis=1).sum())].view(-1, 3)
    out = [flat.new_empty(0, 3, size, size, dtype=torch.float32)]
    for first in range(0, len(sizes), _CROPS_AT_ONCE):
        part = slice(first, first + _CROPS_AT_ONCE)
        highest, widest = sizes[part].max(axis=0).tolist()
        heights, widths = torch.from_numpy(sizes[part]).to(flat.device).unbind(dim=1)
        y, x = torch.arange(highest, device=flat.device), torch.arange(widest, device=flat.device)
        # Beyond a crop's edge any pixel will do: its weight is 0.
        inside = starts[part, None, None] + y[:, None] * widths[:, None, None] + x
        padded = pixels[inside.clamp_(max=len(pixels) - 1)].float() / 255  # (b, H, W, 3)
        rows, columns = resize_matrix(heights, size, highest), resize_matrix(widths, size, widest)
        out.append(torch.einsum("bsh,bhwc,btw->bcst", rows, padded, columns))
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
    """Blur the chosen images of (B, 3, S, S), each with its own standard deviation, edges mirrored, in place."""
    index = np.flatnonzero(chosen)
    if len(index):
        where = torch.from_numpy(index).to(x.device)
        x[where] = blur(x[where], torch.from_numpy(sigma[index]).to(x.device))
    return x


def blur(x: Tensor, sigma: Tensor) -> Tensor:
    """Blur (B, 3, S, S) by normalized Gaussians of `sigma` (B,) pixels, cut at 3 sigma; edges are reflected.

    Row by row, then column by column, one tap after the other: far quicker on a CPU than matrices or a convolution.
    """
    size = x.shape[-1]
    reach = min(int(torch.ceil(3 * sigma.max())), size - 1)
    offsets = torch.arange(-reach, reach + 1, device=sigma.device)
    taps = torch.exp(-0.5 * (offsets / sigma[:, None]) ** 2) * (offsets.abs() <= torch.ceil(3 * sigma[:, None]))
    taps = (taps / taps.sum(dim=1, keepdim=True)).to(x.dtype)[:, :, None, None, None]  # (B, 2 reach + 1, 1, 1, 1)
    for dim, padding in ((2, (0, 0, reach, reach)), (3, (reach, reach, 0, 0))):
        padded = F.pad(x, padding, mode="reflect")
        x = padded.narrow(dim, 0, size) * taps[:, 0]
        for tap in range(1, len(offsets)):
            x.addcmul_(padded.narrow(dim, tap, size), taps[:, tap])
    return x
