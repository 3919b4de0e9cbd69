"""What the tests of protocols look at in an outcome."""

import numpy as np
from numpy.typing import NDArray

from mocosearch.evaluation.outcome import Figure, Outcome


def figure(outcome: Outcome, name: str) -> Figure:
    (found,) = (figure for figure in outcome.figures if figure.name == name)
    return found


def figures(outcome: Outcome) -> dict[str, float]:
    return {figure.name: figure.value for figure in outcome.figures}


def of_photos(outcome: Outcome, name: str) -> NDArray[np.float64]:
    found = figure(outcome, name).of_photos
    assert found is not None
    return found
