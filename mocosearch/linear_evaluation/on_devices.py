"""The protocol on several devices of this machine: ranks that share every batch."""

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from mocosearch.distributed.launch import launch
from mocosearch.encoders import Encoder, load_encoder
from mocosearch.evaluation.labels.labelled import LabelledPhotos
from mocosearch.evaluation.outcome import Outcome
from mocosearch.linear_evaluation.learning import EPOCHS
from mocosearch.linear_evaluation.protocol import Progress, evaluate

# Entered on each rank for as long as it works: what is told of the progress there, and what asks it to stop.
Sight = Callable[[], AbstractContextManager[tuple[Progress, Callable[[], bool]]]]


def evaluate_on_devices(
    photos: LabelledPhotos, encoder: Encoder, devices: int, *, sight: Sight, epochs: int = EPOCHS, seed: int = 0
) -> Outcome:
    """Do what `evaluate` does, here or on as many ranks; `sight` can be pickled.

    Raises what `evaluate` raises, in words, and RankFailed.
    """
    if devices == 1:
        with sight() as (progress, stop):
            return evaluate(photos, encoder, epochs=epochs, seed=seed, progress=progress, stop=stop)
    with tempfile.TemporaryDirectory(prefix="mocosearch-encoder-") as folder:
        encoder.save(Path(folder))
        work = partial(_evaluate_saved, photos, Path(folder), sight, epochs, seed)
        outcome: Outcome = launch(work, devices, remedy="start again")
    return outcome


def _evaluate_saved(photos: LabelledPhotos, folder: Path, sight: Sight, epochs: int, seed: int) -> Outcome:
    encoder = load_encoder(folder)
    with sight() as (progress, stop):
        return evaluate(photos, encoder, epochs=epochs, seed=seed, progress=progress, stop=stop)
