"""What is cut from photos of different sizes."""

from pathlib import Path

import numpy as np

from mocosearch.training.batch_order import BatchOrder, Crops
from tests.training.photos import load_tiny_recipe

BATCH = 4
VIEWS = load_tiny_recipe().views


def order_of(photos: int, own: slice, *, only_whole: bool) -> BatchOrder:
    places = np.column_stack([np.arange(photos), np.full((photos, 2), 16)])
    return BatchOrder(3, places, BATCH, own, VIEWS, views_per_image=1, only_whole=only_whole)


def test_no_step_cuts_more_than_the_memory_that_is_made_for_it() -> None:
    sides = np.arange(20, 44)
    places = np.column_stack([np.zeros_like(sides), sides, sides])
    views = load_tiny_recipe().views.model_copy(update={"scale": (0.9, 1.0)})
    order = BatchOrder(0, places, BATCH, slice(0, BATCH), views, views_per_image=2)
    most = Crops(Path("pixels"), order).most_bytes()
    cut = [sum(3 * int(view.boxes[:, 2:].prod(axis=1).sum()) for view in order.parameters(step)) for step in range(300)]
    assert 0.8 * most < max(cut) <= most <= 2 * 3 * int((sides[-BATCH:] ** 2).sum())


def test_the_last_batch_of_an_epoch_is_left_out_or_smaller() -> None:
    whole, rest = (order_of(10, slice(None), only_whole=only_whole) for only_whole in (True, False))
    assert [len(whole.ids(step)) for step in range(whole.steps_per_epoch)] == [4, 4]
    assert [len(rest.ids(step)) for step in range(rest.steps_per_epoch)] == [4, 4, 2]
    first, second = (np.concatenate([rest.ids(3 * epoch + step) for step in range(3)]) for epoch in range(2))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first.tolist() != second.tolist()


def test_ranks_share_every_batch_of_any_size_between_them() -> None:
    alone, *ranks = (order_of(9, own, only_whole=False) for own in (slice(None), slice(0, None, 2), slice(1, None, 2)))
    assert [order.images for order in (alone, *ranks)] == [4, 2, 2]
    for step in range(alone.steps_per_epoch):
        first, second = (order.ids(step).tolist() for order in ranks)
        assert sorted(first + second) == sorted(alone.ids(step))
        assert len(first) - len(second) in {0, 1}
        crops = np.concatenate([order.parameters(step)[0].boxes for order in ranks])
        drawn = alone.parameters(step)[0].boxes
        assert {*map(tuple, crops.tolist())} == {*map(tuple, drawn.tolist())}
