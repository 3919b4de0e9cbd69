"""The protocol from beginning to end, with the settings of the paper and of the authors' `main_lincls.py`."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import numpy as np
import torch

from mocosearch.devices import precision_name
from mocosearch.distributed import on_first_rank, rank, world_size
from mocosearch.encoders import Encoder
from mocosearch.errors import Interrupted, LoaderFailed, TrainingStopped, Unscorable
from mocosearch.evaluation.labelled import LabelledPhotos
from mocosearch.evaluation.outcome import Curve, Figure, Outcome
from mocosearch.evaluation.split import train_and_test
from mocosearch.linear_evaluation.classifier import LinearClassifier
from mocosearch.linear_evaluation.examination import Examination
from mocosearch.linear_evaluation.lessons import Lessons, prepare_lessons
from mocosearch.training.trainer import Trainee, run_steps

EPOCHS = 100
BATCH = 256  # of all ranks together; where there are fewer photos, all of them
LEARNING_RATE = 30.0  # whatever the batch
MILESTONES = (0.6, 0.8)  # shares of the epochs, after each of which the rate is a tenth
MOMENTUM = 0.9

Progress = Callable[[str, int, int], None]  # (what is being done, done, total)


def evaluate(
    photos: LabelledPhotos,
    encoder: Encoder,
    *,
    epochs: int = EPOCHS,
    batch: int = BATCH,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train a linear layer on the encoder's frozen backbone and score it after the last epoch, on the test part.

    The test part is that of `photos` or, where they have none, a fifth of every class. Nothing is chosen by it. On
    several ranks, call it on each; all return the same. Once `stop()` is true on any of them Interrupted is raised.
    Raises Unscorable without two classes to learn or a photo to score, NotFrozen, BadCheckpoint, LoaderFailed.
    """

    def told(what: str) -> Callable[[int, int], None]:
        def tell(done: int, total: int) -> None:
            if stop():
                raise Interrupted(_STOPPED)
            progress(what, done, total)

        return tell

    train, test = (photos.selected(places) for places in train_and_test(photos.labels, photos.held_out, seed=seed))
    crop, device = encoder.preprocessing.crop, encoder.device
    lessons = prepare_lessons(train, crop=crop, batch=batch, seed=seed, device=device, progress=told("Reading photos"))
    with closing(lessons.batches):
        lessons.batches.start()  # while the photos to score are read
        classifier = LinearClassifier(encoder, torch.from_numpy(lessons.labels), len(photos.classes), seed=seed)
        examinations: list[Examination] = []  # on the first rank
        on_first_rank(
            lambda: examinations.append(Examination.prepare(test.paths, test.labels, classifier, told("Embedding")))
        )
        try:
            accuracies = list(_learn(classifier, lessons, examinations, epochs, progress, stop))
        except TrainingStopped:
            raise Unscorable(
                f"The classifier's loss became infinite: the numbers that the encoder {encoder.fingerprint} gives are "
                "too large for the paper's learning rate; use `eval linear --fast`."
            ) from None
        except LoaderFailed as error:
            cause = str(error).partition(":")[0]
            raise LoaderFailed(f"{cause}: start again, with more memory free if that ran out.") from None
    classifier.check_frozen()
    facts: dict[str, int | float | str] = {
        "train": len(lessons.labels),
        "classes": len(photos.classes),
        "epochs": epochs,
        "steps": epochs * lessons.batches.steps_per_epoch,
        "batch": min(batch, len(lessons.labels)),
        "learning_rate": LEARNING_RATE,
        "crop": crop,
        "seed": seed,
        "device": device.type,
        "precision": precision_name(device),
        "ranks": world_size(),
    }
    return on_first_rank(lambda: _outcome(classifier, lessons, examinations[0], accuracies, facts))


def _learn(
    classifier: LinearClassifier,
    lessons: Lessons,
    examinations: Sequence[Examination],
    epochs: int,
    progress: Progress,
    stop: Callable[[], bool],
) -> Iterator[tuple[float, float]]:
    """Take all steps; yield after each epoch the accuracy on its crops and, on the first rank, on the test part."""
    optimizer = torch.optim.SGD(classifier.fc.parameters(), LEARNING_RATE, momentum=MOMENTUM, weight_decay=0)
    trainee = Trainee(classifier, optimizer, autocast=None)
    epoch = lessons.batches.steps_per_epoch
    steps = epochs * epoch
    correct = 0.0

    def rate(step: int) -> float:
        return learning_rate(step // epoch, epochs)

    for report in run_steps(trainee, lessons.batches, rate, steps=range(steps), stop=stop):
        progress("Training", report.step, steps)
        if report.stop and report.step < steps:
            raise Interrupted(_STOPPED)
        correct += report.metrics["accuracy"] * lessons.count(report.step - 1)
        if report.step % epoch == 0:
            tested = examinations[0].correct(classifier).mean() if rank() == 0 else np.nan
            yield correct / len(lessons.labels), float(tested)
            correct = 0.0


def learning_rate(epoch: int, epochs: int) -> float:
    """Return the learning rate of an epoch, counted from 0: 30, a tenth from 60 of 100 on, a hundredth from 80 on."""
    return LEARNING_RATE * 0.1 ** sum(epoch / epochs >= milestone for milestone in MILESTONES)


def _outcome(
    classifier: LinearClassifier,
    lessons: Lessons,
    examination: Examination,
    accuracies: Sequence[tuple[float, float]],
    facts: dict[str, int | float | str],
) -> Outcome:
    correct = examination.correct(classifier)
    guess = np.bincount(lessons.labels).argmax()
    chance = float(np.mean(examination.labels.cpu().numpy() == guess))
    skipped = [*(photo.reason for photo in lessons.skipped), *(photo.reason for photo in examination.skipped)]
    facts = {**facts, "test": len(correct), "skipped": len(skipped)}
    x = np.arange(1, len(accuracies) + 1, dtype=np.float64)
    of_crops, of_test = np.array(accuracies).T
    return Outcome(
        "linear",
        (Figure("linear accuracy", float(correct.mean()), chance, of_photos=correct.astype(np.float64)),),
        facts,
        (
            Curve("Accuracy on the test part over the epochs", "epoch", "accuracy", x, of_test),
            Curve("Accuracy on the crops that are learned from, over the epochs", "epoch", "accuracy", x, of_crops),
        ),
        notices=tuple(_notices(facts, skipped)),
    )


def _notices(facts: dict[str, int | float | str], skipped: Sequence[str]) -> Iterator[str]:
    if skipped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in Counter(skipped).most_common())
        yield f"{len(skipped):,} photos that cannot be read are left out: {reasons}"
    if facts["epochs"] != EPOCHS:
        yield f"{facts['epochs']} epochs instead of the paper's {EPOCHS}"
    if facts["batch"] != BATCH:
        yield f"batches of {facts['batch']} photos instead of the paper's {BATCH}"


_STOPPED = (
    "Stopped; nothing is kept of a classifier that is not finished. Start again, with fewer --epochs or with --fast."
)
