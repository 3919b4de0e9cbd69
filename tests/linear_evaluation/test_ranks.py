"""Several ranks learn and score as one process does."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from mocosearch.distributed.launch import launch
from mocosearch.encoders import Encoder
from mocosearch.linear_evaluation import evaluate, evaluate_on_devices
from mocosearch.nets import build_backbone
from tests.linear_evaluation import ranks_work
from tests.linear_evaluation.small import CARD, CPU, PREPROCESSING, write_classes


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))


def test_two_ranks_learn_what_one_process_learns(tmp_path: Path) -> None:
    photos = write_classes(tmp_path / "photos", train=6, test=0)
    photos = photos.selected(np.arange(17))  # batches of 8, 8 and 1: in the last one a rank has nothing
    weight, bias, accuracies = launch(partial(ranks_work.weights, photos), 2)
    alone = ranks_work.weights(photos)
    assert weight.abs().max() > 1
    torch.testing.assert_close(weight, alone[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(bias, alone[1], rtol=1e-9, atol=1e-9)
    assert accuracies == pytest.approx(alone[2])


def test_an_encoder_is_scored_on_two_devices_as_on_one(tmp_path: Path) -> None:
    photos = write_classes(tmp_path / "photos", train=5, test=3)
    torch.manual_seed(0)
    encoder = Encoder(build_backbone("resnet18", small_stem=True), CARD, PREPROCESSING, CPU)
    told = tmp_path / "told.txt"
    together = evaluate_on_devices(photos, encoder, 2, epochs=2, sight=partial(ranks_work.writing_to, told))
    alone = evaluate(photos, encoder, epochs=2, workers=0)
    assert (alone.facts["devices"], together.facts["devices"]) == (1, 2)
    for curves in zip(alone.curves, together.curves, strict=True):
        assert curves[0].y == pytest.approx(curves[1].y)
    assert together.figures[0].of_photos is not None
    assert together.figures[0].of_photos.shape == (9,)
    assert sorted({*told.read_text().splitlines()}) == [
        "Embedding 9 9",
        "Reading photos 15 15",
        "Training 1 2",
        "Training 2 2",
    ]
