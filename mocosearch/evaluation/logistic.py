"""Multinomial logistic regression, several strengths of L2 regularization trained at once.

The loss of each is the mean cross-entropy + l2 / 2 * |weight|^2 over standardized features. Its Hessian is
nowhere larger than 1/2 covariance + l2 (Boehning 1992): in the eigenbasis of the covariance that bound is
diagonal, so gradient steps scaled by it need no line search, and Nesterov's momentum makes them fast.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_STEPS = 300  # at most; strengths of any use are done in far fewer
_TOLERANCE = 1e-7  # stop when a plain step lowers every loss by less than this share of it
_NEGLIGIBLE = 1e-9  # directions with less than this share of the largest variance carry rounding errors only
_ROUNDING = 1e-6  # a coordinate that varies by less than this share of its mean is a constant in float32
_BLOCK_LOGITS = 2**24  # photos x strengths x classes at once


@dataclass(frozen=True, slots=True)
class Classifiers:
    """S linear classifiers of C classes on vectors of `dim` numbers."""

    mean: Tensor  # (dim,)
    weight: Tensor  # (S, dim, C)
    bias: Tensor  # (S, C)

    def correct(self, vectors: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the photos that each classifier names rightly: (S,) for vectors (n, dim), labels (n,)."""
        total = torch.zeros(len(self.weight), dtype=torch.int64)
        for rows in _blocks(len(labels), self.bias.numel()):
            logits = _logits(torch.from_numpy(vectors[rows]) - self.mean, self.weight, self.bias)
            total += (logits.argmax(2) == torch.from_numpy(labels[rows])[:, None]).sum(0)
        counts: NDArray[np.int64] = total.numpy()
        return counts


def fit_logistic(
    vectors: NDArray[np.float32], labels: NDArray[np.int64], classes: int, strengths: list[float]
) -> Classifiers:
    """Fit one classifier a strength to vectors (n, dim) and labels (n,) in 0 .. classes-1."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    scatter = _covariance(vectors, mean)
    deviation = np.sqrt(scatter.diagonal())
    varies = deviation > _ROUNDING * np.abs(mean)
    scale = np.divide(1, deviation, out=np.zeros_like(deviation), where=varies)
    variances, directions = np.linalg.eigh(scatter * scale[:, None] * scale)
    used = variances > _NEGLIGIBLE * max(variances[-1], np.finfo(np.float64).tiny)
    basis = torch.from_numpy((scale[:, None] * directions[:, used]).astype(np.float32))  # (dim, used)
    center = torch.from_numpy(mean.astype(np.float32))
    rotated = (torch.from_numpy(vectors) - center) @ basis  # (n, used)
    weight, bias = _descend(rotated, torch.from_numpy(labels), classes, strengths, variances[used])
    return Classifiers(center, torch.einsum("du,suc->sdc", basis, weight), bias)


def _descend(
    inputs: Tensor, labels: Tensor, classes: int, strengths: list[float], variances: NDArray[np.float64]
) -> tuple[Tensor, Tensor]:
    """Minimize all losses together from zero: weight (S, dim, C) and bias (S, C) for inputs (n, dim)."""
    l2 = torch.tensor(strengths)[:, None, None]
    rate = 1 / (torch.from_numpy(variances).float()[:, None] / 2 + l2)  # (S, dim, 1)
    weight = torch.zeros(len(strengths), inputs.shape[1], classes)
    bias = torch.zeros(len(strengths), classes)
    last_weight, last_bias, age = weight, bias, torch.ones(len(strengths))
    for _ in range(_STEPS):
        older, age = age, (1 + torch.sqrt(1 + 4 * age**2)) / 2
        momentum = ((older - 1) / age)[:, None]
        ahead = weight + momentum[:, None] * (weight - last_weight)
        ahead_bias = bias + momentum * (bias - last_bias)
        loss, slope, slope_bias = _gradient(inputs, labels, ahead, ahead_bias)
        loss, slope = loss + (l2 / 2 * ahead**2).sum((1, 2)), slope + l2 * ahead
        last_weight, weight = weight, ahead - rate * slope
        last_bias, bias = bias, ahead_bias - 2 * slope_bias  # a constant input has "variance" 1: rate 2
        gain = (rate * slope**2).sum((1, 2)) + 2 * (slope_bias**2).sum(1)
        if bool((gain < _TOLERANCE * loss).all()):
            break
        # Where the momentum points uphill, start it anew (O'Donoghue & Candes 2015).
        uphill = (slope * (weight - last_weight)).sum((1, 2)) + (slope_bias * (bias - last_bias)).sum(1) > 0
        age = torch.where(uphill, torch.ones_like(age), age)
    return weight, bias


def _gradient(inputs: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean cross-entropy (S,) and its gradients by weight (S, dim, C) and bias (S, C)."""
    count, (settings, classes) = len(inputs), bias.shape
    loss = torch.zeros(settings)
    by_weight, by_bias = torch.zeros(inputs.shape[1], bias.numel()), torch.zeros_like(bias)
    for rows in _blocks(count, bias.numel()):
        log_p = _logits(inputs[rows], weight, bias).log_softmax(2)  # (rows, S, C)
        truth = labels[rows][:, None, None].expand(-1, settings, 1)
        loss -= log_p.gather(2, truth).sum((0, 2)) / count
        error = log_p.exp_().scatter_add_(2, truth, torch.full_like(truth, -1, dtype=log_p.dtype)) / count
        by_weight += inputs[rows].T @ error.flatten(1)
        by_bias += error.sum(0)
    return loss, by_weight.view(inputs.shape[1], settings, classes).transpose(0, 1), by_bias


def _logits(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return (rows, S, C) for inputs (rows, dim): one matrix product for all settings."""
    flat = weight.transpose(0, 1).reshape(weight.shape[1], bias.numel())
    return (inputs @ flat).view(len(inputs), *bias.shape) + bias


def _covariance(vectors: NDArray[np.float32], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the covariance (dim, dim) in float64, converting some rows at a time."""
    total = np.zeros((len(mean), len(mean)))
    for rows in _blocks(len(vectors), vectors.shape[1]):
        block = vectors[rows] - mean
        total += block.T @ block
    return total / len(vectors)


def _blocks(count: int, width: int) -> list[slice]:
    """Cut `count` rows of `width` numbers into slices of at most _BLOCK_LOGITS numbers."""
    rows = max(1, _BLOCK_LOGITS // width)
    return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]
