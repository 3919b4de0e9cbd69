"""Linear probe: how well a linear classifier on frozen vectors tells photos it has not seen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.inputs import checked_labels, checked_vectors
from mocosearch.evaluation.intervals import wilson_interval
from mocosearch.evaluation.logistic import fit_logistic
from mocosearch.evaluation.split import stratified_split

# Strongest first, so that the simplest of equally good classifiers is taken: 10 down to 1e-5 in half decades.
STRENGTHS: list[float] = [10.0 ** (exponent / 2) for exponent in range(2, -11, -1)]
_TEST = 0.2  # of every class
_VALIDATION = 0.2  # of what is left


@dataclass(frozen=True, slots=True)
class LinearResult:
    """What a linear probe found."""

    accuracy: float  # on the test part
    interval: tuple[float, float]  # 95%, Wilson
    chance: float  # what naming the largest class of the training part scores on the test part
    train: int  # photos
    test: int
    l2: float  # the strength that was chosen


def linear_probe(vectors: NDArray[np.floating], labels: NDArray[np.integer], *, seed: int = 0) -> LinearResult:
    """Train on 80% of every class of `vectors` (n, dim), score on the rest, which nothing is chosen by.

    The regularization is the one that does best on a fifth of the training part, which is then learned whole.
    Raises Unscorable for one class, for classes of one photo each, and for non-finite vectors.
    """
    features = checked_vectors(vectors)
    classes = checked_labels(labels, len(features))
    count = int(classes.max(initial=-1)) + 1
    if count < 2:
        raise Unscorable("A linear probe needs at least 2 classes: sort the photos into class folders.")
    train, test = stratified_split(classes, _TEST, seed=seed)
    if len(test) == 0:
        raise Unscorable("A linear probe needs a class with at least 2 photos: add photos to the class folders.")
    l2 = _best_strength(features[train], classes[train], count, seed)
    classifier = fit_logistic(features[train], classes[train], count, [l2])
    accuracy = int(classifier.correct(features[test], classes[test])[0]) / len(test)
    guess = np.bincount(classes[train]).argmax()
    chance = float(np.mean(classes[test] == guess))
    return LinearResult(accuracy, wilson_interval(accuracy, len(test)), chance, len(train), len(test), l2)


def _best_strength(features: NDArray[np.float32], classes: NDArray[np.int64], count: int, seed: int) -> float:
    """Return the one that does best on a part of the training part; the strongest if none can be held out."""
    learned, validation = stratified_split(classes, _VALIDATION, seed=seed)
    if len(validation) == 0:
        return STRENGTHS[0]
    classifiers = fit_logistic(features[learned], classes[learned], count, STRENGTHS)
    return STRENGTHS[int(classifiers.correct(features[validation], classes[validation]).argmax())]
