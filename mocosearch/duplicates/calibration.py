"""How well an encoder tells copies in this library: measured on copies made of its photos and on its other photos."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mocosearch.duplicates.contents import Contents
from mocosearch.duplicates.copies import KINDS, Thumbnails, copies_of, look_the_same, thumbnails, turned_copy
from mocosearch.duplicates.threshold import Calibration, DifferentPhotos, choose, false_pairs_that_matter
from mocosearch.duplicates.turned_photos import embed_turned
from mocosearch.encoders import Encoder
from mocosearch.errors import PhotoGone
from mocosearch.images.decode import Undecodable, decode
from mocosearch.randomness import permutation
from mocosearch_index.duplicates import scales_of

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

COPIED = 200  # photos of which copies are made
COMPARED = 2_000  # photos compared with all others: with 500, chance moved the threshold by a tenth
_SEED = 8
_AT_ONCE = 8


def calibrate(contents: Contents, encoder: Encoder, progress: Callable[[int, int], None]) -> Calibration:
    """Measure; `progress` is told photos done and their number. PhotoGone when none of the sample can be read."""
    count = len(contents.paths)
    order = permutation(_SEED, count, size=count)
    copies = _embed_copies(contents, order[:COPIED], encoder, progress)
    judge = _Judge(contents.paths)
    compared = order[:COMPARED]
    upright = contents.nearest(contents.vectors[compared].astype(np.float32), compared)
    views = copies.turned.reshape(-1, copies.turned.shape[-1])
    seven = np.repeat(copies.rows, copies.turned.shape[1])
    turned = contents.nearest(views, seven)
    of_turned = contents.to_originals(views, seven, contents.scales[seven]).reshape(len(copies.rows), -1).max(axis=1)
    of_upright = {
        kind: contents.to_originals(made, copies.rows, scales_of(made, contents.vectors))
        for kind, made in copies.upright.items()
    }
    return Calibration(
        choose(of_upright, judge.different(compared, *upright, len(compared))),
        choose({"turned or mirrored": of_turned}, judge.different(seven, *turned, len(copies.rows))),
        len(copies.rows),
        len(compared),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Copies:
    rows: Int64  # (n,) the originals
    upright: dict[str, Float32]  # by kind (n, dim)
    turned: Float32  # (n, 7, dim): a turned copy in its seven other turns


def _embed_copies(contents: Contents, rows: Int64, encoder: Encoder, progress: Callable[[int, int], None]) -> _Copies:
    made = _prepared_copies(contents, rows, encoder)
    good, upright, turned = [], [], []
    done = 0
    while batch := list(islice(made, _AT_ONCE)):
        whole = [(row, pixels) for row, pixels in batch if pixels is not None]
        if whole:
            good += [row for row, _ in whole]
            pixels = torch.stack([pixels for _, pixels in whole])  # (B, kinds + 1, 3, crop, crop)
            copies = encoder.embed(pixels[:, :-1].flatten(0, 1))
            upright.append(contents.spread(copies).reshape(len(whole), len(KINDS), -1))
            seven = embed_turned(pixels[:, -1], encoder)
            turned.append(contents.spread(seven.reshape(-1, seven.shape[-1])).reshape(seven.shape))
        done += len(batch)
        progress(done, len(rows))
    if not good:
        raise PhotoGone(
            "None of the photos can be read to measure how well the encoder tells copies: connect the drive they are "
            "on, or name a likeness with --threshold."
        )
    vectors = np.concatenate(upright)
    by_kind = {kind: vectors[:, place] for place, kind in enumerate(KINDS)}
    return _Copies(np.array(good, np.int64), by_kind, np.concatenate(turned))


def _prepared_copies(contents: Contents, rows: Int64, encoder: Encoder) -> Iterator[tuple[int, Tensor | None]]:
    """Yield each row with its copies as the network sees them, the turned one last; None for a photo not readable."""

    def prepare(row: int) -> tuple[int, Tensor | None]:
        try:
            picture = decode(contents.paths[row], short_side=2 * encoder.preprocessing.resize).image
        except Undecodable:
            return row, None
        copies = [*copies_of(picture, row).values(), turned_copy(picture, row)]
        return row, torch.stack([encoder.prepare(copy) for copy in copies])

    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="decode") as pool:
        for first in range(0, len(rows), 2 * _AT_ONCE):  # not all at once: that many pictures would not fit
            yield from pool.map(prepare, rows[first : first + 2 * _AT_ONCE].tolist())


class _Judge:
    """Decides which of the nearest pairs are different photos."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._thumbnails: dict[int, Thumbnails | None] = {}

    def different(self, own: Int64, likenesses: Float32, others: Int64, photos: int) -> DifferentPhotos:
        """Return the nearest pairs of different photos: query i is of photo own[i], its neighbors others[i]."""
        enough = false_pairs_that_matter(photos)
        found: list[float] = []
        seen: set[tuple[int, int]] = set()
        for place in np.argsort(-likenesses, axis=None, kind="stable").tolist():
            query, rank = divmod(place, likenesses.shape[1])
            pair = int(own[query]), int(others[query, rank])
            if len(found) >= enough or pair[1] < 0:
                break
            if pair not in seen and not self._same(*pair):
                found.append(float(likenesses[query, rank]))
            seen.add(pair)  # once, though several of its turns are near
        return DifferentPhotos(found, photos, all_of_them=photos == len(self._paths))

    def _same(self, one: int, other: int) -> bool:
        left, right = self._thumbnail(one), self._thumbnail(other)
        return left is None or right is None or look_the_same(left, right)  # what cannot be seen tells nothing

    def _thumbnail(self, row: int) -> Thumbnails | None:
        if row not in self._thumbnails:
            try:
                self._thumbnails[row] = thumbnails(self._paths[row])
            except Undecodable:
                self._thumbnails[row] = None
        return self._thumbnails[row]
