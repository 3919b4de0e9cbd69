"""Multinomial logistic regression, many learning rates and weight decays trained at once.

The loss of each setting is the mean cross-entropy + decay / 2 * |weight|^2 over standardized features, lowered by
SGD with momentum and a cosine schedule. All settings see the same batches, so that a step is two matrix products
for all of them together. Features of a network are far from round: some directions vary ten thousand times as much as
others. So they are turned to their principal axes, where the curvature is about diagonal, and each direction is
stepped by its own variance. Ten epochs then come to where plain descent needs thousands.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mocosearch.evaluation.inputs import gram
from mocosearch.randomness import permutation

_BATCH = 256  # photos, at most
_EPOCHS = 10
_STEPS = 500  # at least, however few photos there are
_MOMENTUM = 0.9
_NEGLIGIBLE = 1e-9  # directions with less than this share of the largest variance carry rounding errors only
_ROUNDING = 1e-6  # a coordinate that varies by less than this share of its mean is a constant in float32
_BLOCK = 2**22  # numbers at once, where memory would grow with the photos


@dataclass(frozen=True, slots=True)
class Setting:
    """How a classifier is trained."""

    rate: float  # of learning: 1 is a Newton step where the curvature is the variance, and it is half of that at most
    decay: float  # of weights, as in the loss above


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """Standardized features, turned to their principal axes."""

    mean: Tensor  # (dim,)
    directions: Tensor  # (dim, used), what constant and negligible directions leave
    variances: Tensor  # (used,), along the directions; before turning each is 1

    def turn(self, vectors: NDArray[np.float32]) -> Tensor:
        """Return (n, used) for vectors (n, dim)."""
        return (torch.from_numpy(vectors) - self.mean) @ self.directions


def principal_axes(vectors: NDArray[np.float32]) -> Axes:
    """Find the axes of vectors (n, dim)."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    if len(vectors) < len(mean):
        # Products of photos have the eigenvalues of the covariance, and are the smaller matrix.
        centered = vectors - mean
        scale = _scale((centered**2).mean(axis=0), mean)
        standardized = torch.from_numpy(centered * scale)
        variances, shares = torch.linalg.eigh(standardized @ standardized.T / len(vectors))
        used = _used(variances)
        directions = standardized.T @ (shares[:, used] / (len(vectors) * variances[used]).sqrt())
    else:
        covariance = gram(vectors, mean) / len(vectors)
        scale = _scale(covariance.diagonal(), mean)
        variances, directions = torch.linalg.eigh(torch.from_numpy(covariance * scale[:, None] * scale))
        used = _used(variances)
        directions = directions[:, used]
    directions = torch.from_numpy(scale)[:, None] * directions
    return Axes(torch.from_numpy(mean).float(), directions.float(), variances[used].float())


def _scale(variances: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what standardizes coordinates (dim,): 0 for constants."""
    deviation = np.sqrt(variances)
    varies = deviation > _ROUNDING * np.abs(mean)
    scale: NDArray[np.float64] = np.divide(1, deviation, out=np.zeros_like(deviation), where=varies)
    return scale


def _used(variances: Tensor) -> Tensor:
    """Tell which of the ascending variances are more than rounding."""
    return variances > _NEGLIGIBLE * variances[-1].clamp(min=torch.finfo(torch.float64).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class Classifiers:
    """S linear classifiers of C classes on features with `used` axes."""

    weight: Tensor  # (used, S * C)
    bias: Tensor  # (S, C)

    def score(self, inputs: Tensor, labels: Tensor) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Tell which of inputs (n, used) each names rightly, (n, S), and its mean cross-entropy, (S,)."""
        right = torch.empty(len(inputs), len(self.bias), dtype=torch.bool)
        loss = torch.zeros(len(self.bias), dtype=torch.float64)
        rows = max(1, _BLOCK // self.bias.numel())
        for start in range(0, len(inputs), rows):
            block, truth = self.logits(inputs[start : start + rows]), labels[start : start + rows, None]
            right[start : start + rows] = block.argmax(2) == truth
            truth = truth[..., None].expand(-1, len(self.bias), 1)
            loss -= block.log_softmax(2).gather(2, truth).sum((0, 2), dtype=torch.float64)
        return right.numpy(), (loss / len(inputs)).numpy()

    def logits(self, inputs: Tensor) -> Tensor:
        """Return (n, S, C) for inputs (n, used): one matrix product for all classifiers."""
        return torch.addmm(self.bias.flatten(), inputs, self.weight).view(len(inputs), *self.bias.shape)


def train(
    inputs: Tensor, labels: Tensor, classes: int, settings: Sequence[Setting], variances: Tensor, *, seed: int
) -> Classifiers:
    """Train a classifier a setting on inputs (n, used), which vary by `variances`, and labels (n,) below `classes`."""
    count = len(settings)
    found = Classifiers(torch.zeros(inputs.shape[1], count * classes), torch.zeros(count, classes))
    velocity, bias_velocity = torch.zeros_like(found.weight), torch.zeros_like(found.bias)
    rates = torch.tensor([setting.rate for setting in settings])
    decays = torch.tensor([setting.decay for setting in settings]).repeat_interleave(classes)
    parts = math.ceil(len(inputs) / _BATCH)
    curvature = variances + _damping(variances, len(inputs) / parts)
    step_size = rates.repeat_interleave(classes) / (curvature[:, None] + decays)  # (used, S * C)
    epochs = max(_EPOCHS, math.ceil(_STEPS / parts))
    for step, batch in enumerate(_batches(len(inputs), parts, epochs, seed)):
        seen = inputs[batch]
        error = found.logits(seen).softmax(2)
        truth = labels[batch][:, None, None].expand(-1, count, 1)
        error.scatter_add_(2, truth, torch.full_like(truth, -1, dtype=error.dtype)).div_(len(seen))
        slope = (seen.T @ error.flatten(1)).addcmul_(decays, found.weight)
        share = (1 + math.cos(math.pi * step / (epochs * parts))) / 2
        velocity.mul_(_MOMENTUM).addcmul_(step_size, slope)
        bias_velocity.mul_(_MOMENTUM).addcmul_(rates[:, None], error.sum(0))
        found.weight.sub_(velocity, alpha=share)
        found.bias.sub_(bias_velocity, alpha=share)
    return found


def _batches(count: int, parts: int, epochs: int, seed: int) -> Iterator[Tensor]:
    """Yield the places of each batch: everything once an epoch, in another order each time."""
    for epoch in range(epochs):
        yield from torch.from_numpy(permutation(seed, epoch, size=count)).tensor_split(parts)


def _damping(variances: Tensor, batch: float) -> float:
    """Return what is added to each variance: the least with which a batch still tells where to go.

    Steps scaled by 1 / (variance + damping) have sum(variance / (variance + damping)) directions of full length. When
    a batch has fewer photos than that, its noise outweighs its slope.
    """
    low, high = math.log(_NEGLIGIBLE), math.log(max(len(variances), 1) / batch + 1)
    largest = float(variances.max()) if len(variances) else 1.0
    for _ in range(40):
        middle = (low + high) / 2
        directions = float((variances / (variances + largest * math.exp(middle))).sum())
        low, high = (low, middle) if directions <= batch else (middle, high)
    return largest * math.exp(high)
