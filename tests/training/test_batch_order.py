"""What is cut from photos of different sizes."""

from pathlib import Path

import numpy as np

from mocosearch.training.batch_order import BatchOrder, Crops
from tests.training.photos import load_tiny_recipe

BATCH = 4


def test_no_step_cuts_more_than_the_memory_that_is_made_for_it() -> None:
    sides = np.arange(20, 44)
    places = np.column_stack([np.zeros_like(sides), sides, sides])
    views = load_tiny_recipe().views.model_copy(update={"scale": (0.9, 1.0)})
    order = BatchOrder(0, places, BATCH, slice(0, BATCH), views, views_per_image=2)
    most = Crops(Path("pixels"), order).most_bytes()
    cut = [sum(3 * int(view.boxes[:, 2:].prod(axis=1).sum()) for view in order.parameters(step)) for step in range(300)]
    assert 0.8 * most < max(cut) <= most <= 2 * 3 * int((sides[-BATCH:] ** 2).sum())
