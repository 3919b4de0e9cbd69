"""Color operations on a batch (B, 3, H, W) of float RGB in [0, 1], each sample with an amount of its own.

The formulas are those of torchvision's tensor functions.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

OPERATIONS = ("brightness", "contrast", "saturation", "hue")
_LUMA = (0.2989, 0.587, 0.114)  # ITU-R 601-2, as in torchvision


def luma(x: Tensor) -> Tensor:
    """Return the gray value (B, 1, H, W)."""
    return (x * torch.tensor(_LUMA, device=x.device)[:, None, None]).sum(dim=1, keepdim=True)


def to_gray_where(x: Tensor, chosen: NDArray[np.bool_]) -> Tensor:
    """Replace the chosen images of the batch by their gray version, in place."""
    where = torch.from_numpy(np.flatnonzero(chosen)).to(x.device)
    x[where] = luma(x[where]).expand(-1, 3, -1, -1)
    return x


def jitter(x: Tensor, chosen: NDArray[np.bool_], order: NDArray[np.int64], amount: NDArray[np.float64]) -> Tensor:
    """Apply the four operations to the chosen images, each image in its own order (B, 4), in place."""
    amounts = torch.from_numpy(amount).to(x)
    for position in range(len(OPERATIONS)):
        for operation, apply in enumerate((brightness, contrast, saturation, hue)):
            index = np.flatnonzero(chosen & (order[:, position] == operation))
            if len(index):
                where = torch.from_numpy(index).to(x.device)
                x[where] = apply(x[where], amounts[where, operation, None, None, None])
    return x


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Scale towards black; `factor` is (B, 1, 1, 1) here and below, 1 leaves the image as it is."""
    return (x * factor).clamp_(0, 1)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Blend with the image's mean gray value."""
    return _blend(x, luma(x).mean(dim=(2, 3), keepdim=True), factor)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Blend with the gray image."""
    return _blend(x, luma(x), factor)


def hue(x: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue by `shift`, in turns of the color circle, from -0.5 to 0.5.

    In HSV a color's channels are v - v s w(h) with one trapezoid w per channel, so only h changes.
    """
    red, green, blue = x.unbind(dim=1)
    value = torch.maximum(torch.maximum(red, green), blue)  # (B, H, W); on a CPU far quicker than x.amax(dim=1)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    safe = chroma.clamp(min=1e-12)
    turn = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    turn = turn / 6 + shift[:, 0]
    offsets = torch.tensor([5.0, 3.0, 1.0], device=x.device)[:, None, None]
    k = offsets + turn[:, None] * 6  # (B, 3, H, W)
    k -= 6 * torch.floor(k / 6)  # k % 6, in half the time
    return value[:, None] - chroma[:, None] * torch.minimum(k, 4 - k).clamp_(0, 1)


def _blend(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(other, x, factor).clamp_(0, 1)
