"""Training the classifier with the settings of the paper and of the authors' `main_lincls.py`."""

from collections.abc import Callable, Iterator

import torch

from mocosearch.errors import Interrupted, LoaderFailed, TrainingStopped, Unscorable
from mocosearch.linear_evaluation.classifier import LinearClassifier
from mocosearch.linear_evaluation.lessons import Lessons
from mocosearch.training.packs import CountCallback
from mocosearch.training.trainer import StepReport, Trainee, run_steps

EPOCHS = 100
BATCH = 256  # of all ranks together; the last one of an epoch may be smaller
LEARNING_RATE = 30.0  # of any batch
MILESTONES = (0.6, 0.8)  # shares of the epochs, from which on the rate is a tenth
MOMENTUM = 0.9
STOPPED = "Stopped: an unfinished classifier is not kept; start again, with fewer --epochs or with --fast."


def learning_rate(epoch: int, epochs: int) -> float:
    """Return the learning rate of an epoch, counted from 0: 30; of 100 epochs 3 from 60 and .3 from 80 on."""
    return LEARNING_RATE * 0.1 ** sum(epoch / epochs >= milestone for milestone in MILESTONES)


def learn(
    classifier: LinearClassifier, lessons: Lessons, *, epochs: int, progress: CountCallback, stop: Callable[[], bool]
) -> Iterator[float]:
    """Train the classifier's layer; yield at the end of each epoch the accuracy on the crops it was given.

    `progress` is told of steps. All ranks yield the same. Raises Interrupted, Unscorable, LoaderFailed.
    """
    epoch = lessons.batches.steps_per_epoch
    steps, correct = epochs * epoch, 0.0
    try:
        for report in _steps(classifier, lessons, epochs, stop):
            progress(report.step, steps)
            if report.stop and report.step < steps:
                raise Interrupted(STOPPED)
            correct += report.metrics["accuracy"] * lessons.count(report.step - 1)
            if report.step % epoch == 0:
                yield correct / len(lessons.labels)
                correct = 0.0
    except TrainingStopped:
        raise Unscorable(
            f"The classifier's loss became infinite: what the encoder {classifier.encoder.fingerprint} gives is too "
            "large for the paper's learning rate; use `eval linear --fast`."
        ) from None
    except LoaderFailed as error:
        cause = str(error).partition(":")[0]
        raise LoaderFailed(f"{cause}: start again, with more memory free if that ran out.") from None


def _steps(
    classifier: LinearClassifier, lessons: Lessons, epochs: int, stop: Callable[[], bool]
) -> Iterator[StepReport]:
    optimizer = torch.optim.SGD(classifier.fc.parameters(), LEARNING_RATE, momentum=MOMENTUM, weight_decay=0)
    epoch = lessons.batches.steps_per_epoch
    return run_steps(
        Trainee(classifier, optimizer, autocast=None),  # the backbone sees to its own precision
        lessons.batches,
        lambda step: learning_rate(step // epoch, epochs),
        steps=range(epochs * epoch),
        stop=stop,
    )
