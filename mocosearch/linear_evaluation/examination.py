"""The test of the protocol: one view of each photo, prepared as the encoder has its photos, and the class told."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mocosearch.errors import BadCheckpoint, Unscorable
from mocosearch.evaluation.labels.labelled import LabelledPhotos
from mocosearch.images.decode import Undecodable
from mocosearch.images.decode_pool import DecodePool
from mocosearch.images.prepared import Prepared
from mocosearch.linear_evaluation.classifier import LinearClassifier
from mocosearch.training.packs import CountCallback

_BATCH = 128  # photos that are in memory at once


@dataclass(frozen=True)
class Examination:
    """Features of the m photos that can be read, made once: neither the backbone nor what it sees of them changes."""

    features: Tensor  # float32 (m, dim)
    labels: Tensor  # int64 (m,)
    skipped: Sequence[Undecodable]

    @classmethod
    def prepare(cls, photos: LabelledPhotos, classifier: LinearClassifier, progress: CountCallback) -> Self:
        """Read the photos. Raises Unscorable when none can be read, BadCheckpoint when a feature is not finite."""
        features: list[Tensor] = []
        kept: list[int] = []
        skipped: list[Undecodable] = []
        geometry = classifier.encoder.preprocessing.geometry
        with DecodePool() as pool:
            prepared = pool.prepare(enumerate(photos.paths), geometry, ahead=2 * _BATCH)
            while batch := list(islice(prepared, _BATCH)):
                readable = [(place, photo) for place, photo in batch if isinstance(photo, Prepared)]
                skipped += [photo for _, photo in batch if isinstance(photo, Undecodable)]
                if readable:
                    features.append(classifier.features(_as_input([photo for _, photo in readable], classifier)))
                    kept += [place for place, _ in readable]
                progress(len(kept) + len(skipped), len(photos.paths))
        if not kept:
            raise Unscorable(f"None of the {len(photos.paths)} photos to score can be read: give others.")
        found = torch.cat(features)
        if not found.isfinite().all():
            raise BadCheckpoint(
                f"The encoder {classifier.encoder.fingerprint} gives numbers that are not finite: its weights are no "
                "good; train again, or name another encoder."
            )
        return cls(found, torch.from_numpy(photos.labels[kept]).to(found.device), skipped)

    @torch.no_grad()
    def correct(self, classifier: LinearClassifier) -> NDArray[np.bool_]:
        """Tell of each photo (m,) whether its class is the one with the largest logit, of equal ones the first."""
        correct: NDArray[np.bool_] = (classifier.fc(self.features).argmax(dim=1) == self.labels).cpu().numpy()
        return correct


def _as_input(photos: Sequence[Prepared], classifier: LinearClassifier) -> Tensor:
    """Return photos as the backbone takes them: float32 (B, 3, crop, crop), normalized, channels last."""
    pixels = torch.from_numpy(np.stack([photo.pixels for photo in photos])).to(classifier.labels.device)
    preprocessing = classifier.encoder.preprocessing
    mean, std = (torch.tensor(values, device=pixels.device) for values in (preprocessing.mean, preprocessing.std))
    return ((pixels / 255 - mean) / std).permute(0, 3, 1, 2)
