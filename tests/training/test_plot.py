"""The picture of a run, drawn from real rows."""

import io
import os

import pytest

from mocosearch.training.plot import PlotFacts, draw

METRICS = [{"step": step, "loss": 2.0, "accuracy": 0.5, "lr": 0.1} for step in (1, 2)]
HEALTH = [{"step": 2, "effective_rank": 3.0, "feature_spread": 0.5, "uniformity": -1.0, "alignment": 0.2}]


@pytest.mark.parametrize(
    ("name", "shown"),
    [(b"r$_$x.yaml", "r$_$x.yaml"), (b"r\xff.yaml", r"r\xff.yaml"), (b"two\nlines.yaml", r"two\nlines.yaml")],
)
def test_a_recipe_file_of_any_name_is_drawn(name: bytes, shown: str) -> None:
    facts = PlotFacts(f"{os.fsdecode(name)}, 8 photos", 2, 4, chance_loss=2.0, chance_knn=None)
    figure = draw(METRICS, HEALTH, facts)
    figure.savefig(io.BytesIO(), format="png")
    assert figure.get_suptitle() == f"{shown}, 8 photos: step 2 of 4"
