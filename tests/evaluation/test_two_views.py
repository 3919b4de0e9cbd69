"""Two augmented views of a sample: the same for every encoder, and of photos that could be read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.errors import NoPhotos
from mocosearch.evaluation.features import embed_folder
from mocosearch.evaluation.health import TwoViews, evaluate_health
from mocosearch.evaluation.two_views import embed_two_views, in_common, views_at
from mocosearch.recipes import load_recipe


class Thumbnail(torch.nn.Module):
    """Sees the picture itself, 4 x 4 pixels of it: equal views give equal vectors, whatever the crop."""

    feature_dim = 48

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(x.float(), 4).flatten(1)


def encoder_at(crop: int) -> Encoder:
    card = EncoderCard("resnet18", True, None, "nothing", 0, 0, "none", "")
    preprocessing = Preprocessing(crop, crop, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    return Encoder(Thumbnail(), card, preprocessing, torch.device("cpu"))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("photos")
    generator = np.random.default_rng(0)
    for number in range(30):
        coarse = Image.fromarray(generator.integers(0, 256, (3, 4, 3), dtype=np.uint8))
        coarse.resize((400, 300), Image.Resampling.BICUBIC).save(folder / f"{number:02}.jpg")
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def of_all(paths: list[Path]) -> TwoViews:
    return embed_two_views(paths, encoder_at(64))


def test_views_are_of_all_photos_and_differ_but_less_than_photos_do(paths: list[Path], of_all: TwoViews) -> None:
    assert of_all.places.tolist() == list(range(30))
    same, others = (of_all.first * of_all.second).sum(axis=1), of_all.first @ of_all.second.T
    assert same.max() < 0.99999
    assert same.mean() > others[~np.eye(30, dtype=bool)].mean() + 0.02


def test_another_encoder_sees_the_same_views_in_another_size(paths: list[Path], of_all: TwoViews) -> None:
    smaller = embed_two_views(paths, encoder_at(32))
    for view, small in ((of_all.first, smaller.first), (of_all.second, smaller.second)):
        assert (view * small).sum(axis=1).min() > 0.995
        assert (view * np.roll(small, 1, axis=0)).sum(axis=1).mean() < 0.95


def test_a_large_collection_is_sampled_by_the_seed(paths: list[Path], of_all: TwoViews) -> None:
    told: list[tuple[int, int]] = []
    sample = embed_two_views(paths, encoder_at(64), lambda done, total: told.append((done, total)), most=12)
    assert len(sample.places) == 12
    assert (np.diff(sample.places) > 0).all()
    np.testing.assert_allclose(sample.first, of_all.first[sample.places], atol=1e-6)  # the same views as before
    assert told[-1] == (12, 12)
    other = embed_two_views(paths, encoder_at(64), most=12, seed=1)
    assert other.places.tolist() != sample.places.tolist()


def test_photos_that_cannot_be_read_are_left_out(paths: list[Path], of_all: TwoViews, tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("text")
    views = embed_two_views([paths[0], tmp_path / "text.jpg", tmp_path / "gone.jpg", paths[3]], encoder_at(64))
    assert views.places.tolist() == [0, 3]
    np.testing.assert_allclose(views.first, of_all.first[[0, 3]], atol=1e-6)
    with pytest.raises(NoPhotos, match="None of the photos"):
        embed_two_views([tmp_path / "gone.jpg"], encoder_at(64))


def test_encoders_are_compared_on_photos_that_were_read_for_all() -> None:
    def views(*places: int) -> TwoViews:
        numbers = np.array(places)
        return TwoViews(numbers, numbers[:, None].astype(np.float32), -numbers[:, None].astype(np.float32))

    common = in_common([views(1, 2, 5, 8), views(0, 2, 5, 8), views(2, 8, 9)])
    assert [(each.places.tolist(), each.first.ravel().tolist()) for each in common] == [([2, 8], [2, 8])] * 3
    assert common[0].second.ravel().tolist() == [-2, -8]
    with pytest.raises(NoPhotos, match="for every encoder"):
        in_common([views(1), views(2)])


def test_the_augmentation_is_that_of_moco_v2_with_the_blur_in_proportion() -> None:
    assert views_at(224) == load_recipe("moco_v2").views
    assert views_at(56).model_copy(update={"blur": views_at(224).blur, "crop": 224}) == views_at(224)
    assert views_at(56).blur.sigma == pytest.approx((0.025, 0.5))


def test_health_is_measured_on_photos_and_their_views(paths: list[Path], of_all: TwoViews) -> None:
    outcome = evaluate_health(embed_folder(paths, encoder_at(64)).vectors, of_all)
    figures = {figure.name: figure for figure in outcome.figures}
    assert figures["relative alignment"].value < 0.9
    assert figures["neighbor stability"].chance == pytest.approx(10 / 29)
    assert figures["neighbor stability"].value > 10 / 29 + 0.1
