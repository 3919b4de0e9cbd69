"""What the ranks of tests/linear_evaluation do, and what one process does alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from mocosearch.evaluation.labels.labelled import LabelledPhotos
from mocosearch.linear_evaluation.classifier import LinearClassifier
from mocosearch.linear_evaluation.learning import learn
from mocosearch.linear_evaluation.lessons import prepare_lessons
from mocosearch.linear_evaluation.protocol import Progress
from tests.linear_evaluation.small import BATCH, Pooled, encoder_of


def weights(photos: LabelledPhotos) -> tuple[Tensor, Tensor, list[float]]:
    """Learn from all photos, in float64; return the layer's weights and biases, and the accuracy of each epoch."""
    encoder = encoder_of(Pooled().double())
    lessons = prepare_lessons(photos, encoder, batch=BATCH, seed=2, workers=0, progress=lambda done, total: None)
    classifier = LinearClassifier(encoder, torch.from_numpy(lessons.labels), 3, seed=2).double()
    accuracies = list(learn(classifier, lessons, epochs=4, progress=lambda done, total: None, stop=lambda: False))
    classifier.check_frozen()
    return classifier.fc.weight.detach(), classifier.fc.bias.detach(), accuracies


@contextmanager
def writing_to(path: Path) -> Iterator[tuple[Progress, Callable[[], bool]]]:
    """Write what is told of the progress, of every rank, a line each."""
    with path.open("a") as file:
        yield lambda *told: print(*told, file=file, flush=True), lambda: False
