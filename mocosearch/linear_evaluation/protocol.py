"""The protocol from beginning to end: learn from one part of the photos, then be scored on the other."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import numpy as np
import torch

from mocosearch.devices import precision_name
from mocosearch.distributed import on_first_rank, rank, world_size
from mocosearch.encoders import Encoder
from mocosearch.errors import Interrupted
from mocosearch.evaluation.labels.labelled import LabelledPhotos
from mocosearch.evaluation.outcome import Curve, Figure, Outcome
from mocosearch.evaluation.split import accuracy_of_guessing, told_of_unknown_classes, train_and_test
from mocosearch.linear_evaluation.classifier import LinearClassifier
from mocosearch.linear_evaluation.examination import Examination
from mocosearch.linear_evaluation.learning import BATCH, EPOCHS, LEARNING_RATE, STOPPED, learn
from mocosearch.linear_evaluation.lessons import Lessons, prepare_lessons
from mocosearch.training.packs import CountCallback

Progress = Callable[[str, int, int], None]  # (what is being done, done, total)
Facts = dict[str, int | float | str]


def evaluate(
    photos: LabelledPhotos,
    encoder: Encoder,
    *,
    epochs: int = EPOCHS,
    batch: int = BATCH,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = lambda what, done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train a linear layer on the encoder's frozen backbone and score it after the last epoch, on the test part.

    The test part is that of `photos` or, where they have none, a fifth of every class. Nothing is chosen by it.
    `workers` processes a rank prepare batches, which changes no result. On several ranks, call it on each: all return
    the same. Once `stop()` is true on any of them, Interrupted is raised.
    Raises Unscorable without two classes to learn or a photo to score, NotFrozen, BadCheckpoint, LoaderFailed.
    """

    def told(what: str) -> CountCallback:
        def tell(done: int, total: int) -> None:
            if stop():
                raise Interrupted(STOPPED)
            progress(what, done, total)

        return tell

    train, test = (photos.selected(places) for places in train_and_test(photos.labels, photos.held_out, seed=seed))
    lessons = prepare_lessons(train, encoder, batch=batch, seed=seed, workers=workers, progress=told("Reading photos"))
    with closing(lessons):
        lessons.batches.start()  # while the photos to score are read
        classifier = LinearClassifier(encoder, torch.from_numpy(lessons.labels), len(photos.classes), seed=seed)
        examinations: list[Examination] = []  # on the first rank
        on_first_rank(lambda: examinations.append(Examination.prepare(test, classifier, told("Embedding"))))

        def examine() -> float:
            return float(examinations[0].correct(classifier).mean()) if rank() == 0 else 0.0

        steps = learn(classifier, lessons, epochs=epochs, progress=lambda *done: progress("Training", *done), stop=stop)
        accuracies = [(of_crops, examine()) for of_crops in steps]
    classifier.check_frozen()
    facts: Facts = {
        "classes": len(photos.classes),
        "epochs": epochs,
        "steps": epochs * lessons.batches.steps_per_epoch,
        "batch": min(batch, len(lessons.labels)),
        "learning rate": LEARNING_RATE,
        "crop": encoder.preprocessing.crop,
        "seed": seed,
        "device": encoder.device.type,
        "precision": precision_name(encoder.device),
        "devices": world_size(),
    }
    return on_first_rank(lambda: _outcome(classifier, lessons, examinations[0], accuracies, facts))


def _outcome(
    classifier: LinearClassifier,
    lessons: Lessons,
    examination: Examination,
    accuracies: Sequence[tuple[float, float]],
    facts: Facts,
) -> Outcome:
    correct, scored = examination.correct(classifier), examination.labels.cpu().numpy()
    chance = accuracy_of_guessing(lessons.labels, scored)
    skipped = [*(photo.reason for photo in lessons.skipped), *(photo.reason for photo in examination.skipped)]
    facts = {"train": len(lessons.labels), "test": len(correct), "skipped": len(skipped), **facts}
    of_crops, of_test = np.array(accuracies).T
    epoch = np.arange(1, len(accuracies) + 1, dtype=np.float64)
    return Outcome(
        "linear",
        (Figure("linear accuracy", float(correct.mean()), chance, of_photos=correct.astype(np.float64)),),
        facts,
        (
            Curve("Accuracy on the photos that are scored", "epoch", "accuracy", epoch, of_test),
            Curve("Accuracy on the crops that are learned from", "epoch", "accuracy", epoch, of_crops),
        ),
        notices=(*_notices(facts, skipped), *told_of_unknown_classes(lessons.labels, scored)),
    )


def _notices(facts: Facts, skipped: Sequence[str]) -> Iterator[str]:
    if skipped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in Counter(skipped).most_common())
        yield f"{len(skipped):,} photos cannot be read and are left out: {reasons}"
    if facts["epochs"] != EPOCHS:
        yield f"{facts['epochs']} epoch{'s' if facts['epochs'] != 1 else ''} instead of the paper's {EPOCHS}"
    if facts["batch"] != BATCH:
        yield f"batches of {facts['batch']} photos instead of the paper's {BATCH}"
