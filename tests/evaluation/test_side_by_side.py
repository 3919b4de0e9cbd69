"""Several encoders are compared on the photos that all of them were given."""

from pathlib import Path

import numpy as np
import pytest

from mocosearch.errors import NoPhotos
from mocosearch.evaluation.features import Features
from mocosearch.evaluation.side_by_side import side_by_side
from mocosearch.images.decode import Undecodable


def features(kept: list[int], dim: int, count: int = 5) -> Features:
    """Features of `count` photos: the vector of a photo is full of its place."""
    vectors = np.tile(np.array(kept, dtype=np.float32)[:, None], dim)
    skipped = [(Path(f"{place}.jpg"), Undecodable("timeout", "")) for place in range(count) if place not in kept]
    return Features(vectors, np.array(kept, dtype=np.int64), skipped)


def test_photos_that_one_encoder_lacks_are_left_out_for_all_and_named_once() -> None:
    common = side_by_side([features([0, 2, 3, 4], 3), features([0, 1, 2, 4], 2), features([0, 2, 3, 4], 1)])
    assert common.kept.tolist() == [0, 2, 4]
    assert [vectors.shape for vectors in common.vectors] == [(3, 3), (3, 2), (3, 1)]
    assert all(vectors[:, 0].tolist() == [0, 2, 4] for vectors in common.vectors)
    assert [path.name for path, _ in common.skipped] == ["1.jpg", "3.jpg"]


def test_what_no_photo_is_left_of_is_refused() -> None:
    with pytest.raises(NoPhotos, match="for every encoder"):
        side_by_side([features([0, 1], 2), features([2, 3], 2)])
