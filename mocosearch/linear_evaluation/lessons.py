"""What the classifier learns from: random crops of packed photos, half of them mirrored; no photo is left out."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mocosearch.distributed import on_first_rank, rank, world_size
from mocosearch.encoders import Encoder, Preprocessing
from mocosearch.errors import Unscorable
from mocosearch.evaluation.labels.labelled import LabelledPhotos
from mocosearch.images.pack import UnpackedPhoto
from mocosearch.images.packed import places_of
from mocosearch.recipes import ViewsSection
from mocosearch.training.batch_order import BatchOrder
from mocosearch.training.data import ViewBatches, default_workers
from mocosearch.training.packs import CountCallback, default_pack_folder, open_packed, pack_photos
from mocosearch_index.records import FileStamp

_SCALE = (0.08, 1.0)  # share of a photo's area that a crop covers; its shape is 3:4 to 4:3
_FLIP = 0.5


@dataclass(frozen=True)
class Lessons:
    """The batches of the n photos that can be read, and the classes of these by their ids."""

    batches: ViewBatches
    labels: NDArray[np.int64]  # (n,)
    skipped: Sequence[UnpackedPhoto]

    def count(self, step: int) -> int:
        """Return the number of photos in a step of all ranks: fewer in the last one of an epoch."""
        order = self.batches.order
        return min(order.batch, len(self.labels) - step % order.steps_per_epoch * order.batch)

    def close(self) -> None:
        """End the processes that prepare batches, and the use of the pack."""
        self.batches.close()
        self.batches.pack.close()


def prepare_lessons(
    photos: LabelledPhotos, encoder: Encoder, *, batch: int, seed: int, workers: int | None, progress: CountCallback
) -> Lessons:
    """Pack the photos and say in which order they are learned from, `batch` at a time over all ranks.

    Crops are as large as the encoder's input. `workers` processes prepare them, None: by the rule of the device.
    Raises Unscorable unless those that can be read are of two classes.
    """
    views, root = views_of(encoder.preprocessing), photos.root.absolute()
    folder = default_pack_folder(root, views)
    stamps = on_first_rank(lambda: _stamps(photos))
    on_first_rank(lambda: pack_photos(root, stamps, views, folder, progress))
    pack, packed, skipped = open_packed(root, stamps, views, folder)
    unread = {photo.path for photo in skipped}
    labels = photos.labels[[stamp.path not in unread for stamp in stamps]]
    if len(np.unique(labels)) < 2:
        raise Unscorable(
            f"A classifier learns from photos of two classes or more; of the {len(labels)} that can be read to learn "
            "from, all are of one: add photos of another."
        )
    order = BatchOrder(
        seed=seed,
        places=places_of(packed),
        batch=batch,
        own=slice(rank(), None, world_size()),
        views=views,
        views_per_image=1,
        only_whole=False,
    )
    workers = default_workers(encoder.device) if workers is None else workers
    return Lessons(ViewBatches(pack, packed, order, encoder.device, workers=workers), labels, skipped)


def views_of(preprocessing: Preprocessing) -> ViewsSection:
    """Return the protocol's augmentation, as large and normalized as the encoder's pictures are.

    It is a random resized crop and a flip, without a change of color.
    """
    none = {"brightness": 0, "contrast": 0, "saturation": 0, "hue": 0, "p": 0}
    return ViewsSection.model_validate(
        {
            "crop": preprocessing.crop,
            "scale": _SCALE,
            "order": (),
            "color_jitter": none,
            "grayscale": 0,
            "blur": {"sigma": (1, 1), "p": 0},
            "flip": _FLIP,
            "mean": preprocessing.mean,
            "std": preprocessing.std,
        }
    )


def _stamps(photos: LabelledPhotos) -> list[FileStamp]:
    """Look at the files; one that is gone gets a stamp that none has, and is skipped as changed."""
    stamps = []
    for path in photos.paths:
        try:
            status = path.stat()
            size, time = status.st_size, status.st_mtime_ns
        except FileNotFoundError:
            size, time = -1, -1
        stamps.append(FileStamp(os.fsencode(path.relative_to(photos.root)), size, time))
    return stamps
