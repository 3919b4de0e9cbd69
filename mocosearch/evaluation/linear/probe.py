"""Linear probe on vectors made once: how well a linear classifier tells photos that it has not seen.

The quick cousin of the paper's protocol. Classifiers of many learning rates and weight decays are trained at once on
a part of the training part and scored on the rest of it; the best setting then learns the whole training part, and
is scored once on the test part.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mocosearch.errors import Unscorable
from mocosearch.evaluation.inputs import checked_labels, checked_vectors
from mocosearch.evaluation.linear.logistic import Setting, principal_axes, train
from mocosearch.evaluation.outcome import Curve, Figure, Outcome
from mocosearch.evaluation.split import (
    accuracy_of_guessing,
    stratified_split,
    told_of_unknown_classes,
    train_and_test,
)

RATES = (0.03, 0.1, 0.3)
DECAYS = tuple(10.0 ** (-exponent / 3) for exponent in range(3, 18, 2))  # .1 down to 2e-6, each 4.6 times the next
SETTINGS = tuple(Setting(rate, decay) for decay in DECAYS for rate in RATES)
_VALIDATION = 0.2  # of every class of the training part
_WEIGHTS = 2**25  # trained at once, where thousands of classes would fill the memory; four arrays of that size
_LUCK = 0.25  # standard errors of accuracy by which no setting is better than another


@dataclass(frozen=True, slots=True, eq=False)
class _Validation:
    """How the settings do on m photos that none of them has learned."""

    accuracy: NDArray[np.float64]  # (decays, rates)
    loss: NDArray[np.float64]  # (decays, rates), cross-entropy
    error: float  # the standard error of an accuracy, at most

    def best(self) -> Setting:
        """Return the setting of least loss among those of which luck could have made the most accurate one."""
        candidates = self.accuracy >= self.accuracy.max() - _LUCK * self.error
        return SETTINGS[int(np.where(candidates, self.loss, np.inf).argmin())]


def evaluate_linear(
    vectors: NDArray[np.floating],
    labels: NDArray[np.integer],
    held_out: NDArray[np.bool_] | None = None,
    *,
    seed: int = 0,
) -> Outcome:
    """Learn from a part of `vectors` (n, dim) with `labels` (n,) and name the test part, by which nothing is chosen.

    The test part is `held_out` (n,), or without one a fifth of every class. Raises Unscorable for a training part of
    one class, for parts that are empty, and for non-finite vectors.
    """
    features = checked_vectors(vectors)
    classes = checked_labels(labels, len(features))
    learned, test = train_and_test(classes, held_out, seed=seed)
    if len(np.unique(classes[learned])) < 2:
        raise Unscorable("A linear probe learns from at least 2 classes: sort the photos into class folders.")
    count = int(classes.max()) + 1
    axes = principal_axes(features[learned])
    inputs, own = axes.turn(features[learned]), torch.from_numpy(classes[learned])
    validated = _validate(inputs, own, count, axes.variances, seed)
    best = validated.best() if validated else SETTINGS[0]
    classifier = train(inputs, own, count, [best], axes.variances, seed=seed)
    right = classifier.score(axes.turn(features[test]), torch.from_numpy(classes[test]))[0][:, 0]
    chance = accuracy_of_guessing(classes[learned], classes[test])
    figure = Figure("linear accuracy", float(right.mean()), chance, of_photos=right.astype(np.float64))
    facts = {
        "learning rate": best.rate,
        "weight decay": best.decay,
        "settings": len(SETTINGS),
        "train": len(learned),
        "test": len(test),
        "classes": count,
    }
    curves = _curves(validated.accuracy) if validated else ()
    notices = (*_notices(validated), *told_of_unknown_classes(classes[learned], classes[test]))
    return Outcome("linear --fast", (figure,), facts, curves, notices=notices)


def _validate(inputs: Tensor, own: Tensor, classes: int, variances: Tensor, seed: int) -> _Validation | None:
    """Train all settings on a part of inputs (n, used) with classes `own` (n,), and score them on the rest.

    That is a fifth of every class. None where no class has two photos.
    """
    learned, unseen = map(torch.from_numpy, stratified_split(own.numpy(), _VALIDATION, seed=seed))
    if not len(unseen):
        return None
    accuracy, loss = np.empty((2, len(SETTINGS)))
    together = max(1, _WEIGHTS // (max(1, inputs.shape[1]) * classes))
    for start in range(0, len(SETTINGS), together):
        block = slice(start, start + together)
        classifiers = train(inputs[learned], own[learned], classes, SETTINGS[block], variances, seed=seed)
        right, loss[block] = classifiers.score(inputs[unseen], own[unseen])
        accuracy[block] = right.mean(axis=0)
    shape = (len(DECAYS), len(RATES))
    return _Validation(accuracy.reshape(shape), loss.reshape(shape), 0.5 / math.sqrt(len(unseen)))


def _curves(accuracy: NDArray[np.float64]) -> tuple[Curve, ...]:
    """Return what each decay reaches with its best rate, and each rate with its best decay."""
    title, name = "Linear accuracy on the validation part", "accuracy"
    return (
        Curve(
            f"{title} by weight decay", "weight decay", name, np.array(DECAYS)[::-1], accuracy.max(1)[::-1], log_x=True
        ),
        Curve(f"{title} by learning rate", "learning rate", name, np.array(RATES), accuracy.max(0), log_x=True),
    )


def _notices(validated: _Validation | None) -> Iterator[str]:
    if validated is None:
        yield "No class has two photos to learn from: the strongest weight decay was taken, not the best."
        return
    accuracy = validated.accuracy
    for name, by in (("weight decays", accuracy.max(1)), ("learning rates", accuracy.max(0))):
        if by.max() > by[1:-1].max() + validated.error:
            yield f"The best of the {name} lies at the border of those tried: a wider range may score higher."
