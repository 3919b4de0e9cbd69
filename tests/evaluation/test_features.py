"""Embedding a folder for scoring: vectors, labels and photos stay together when some cannot be read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.errors import NoPhotos, NotLabelled
from mocosearch.evaluation.features import embed_folder, embed_labelled
from mocosearch.evaluation.knn import evaluate_knn
from mocosearch.evaluation.labels.labelled import find_labelled
from mocosearch.nets import build_backbone


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    torch.manual_seed(0)
    card = EncoderCard("resnet18", True, None, "nothing", 0, 0, "none", "")
    preprocessing = Preprocessing(16, 16, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    return Encoder(build_backbone("resnet18", small_stem=True), card, preprocessing, torch.device("cpu"))


def picture(path: Path, shade: int) -> Image.Image:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", (20, 16), (shade, 255 - shade, shade // 2))
    image.save(path.with_suffix(".png"))
    return image


def test_vectors_stay_with_their_photos_when_others_are_skipped(tmp_path: Path, encoder: Encoder) -> None:
    images = {number: picture(tmp_path / str(number), 40 * number) for number in (0, 2, 3, 5)}
    (tmp_path / "1.png").write_text("text")
    paths = [tmp_path / f"{number}.png" for number in range(6)]  # 4 does not exist
    told: list[tuple[int, int]] = []
    features = embed_folder(paths, encoder, progress=lambda done, total: told.append((done, total)))
    assert features.kept.tolist() == [0, 2, 3, 5]
    assert [(path, error.reason) for path, error in features.skipped] == [(paths[1], "not-an-image"), (paths[4], "io")]
    for row, number in enumerate(features.kept.tolist()):
        np.testing.assert_allclose(features.vectors[row], encoder.embed_image(images[number]), atol=1e-5)
    assert told == [(done, 6) for done in range(1, 7)]


def test_labels_go_with_the_photos_that_are_left(tmp_path: Path, encoder: Encoder) -> None:
    for name, shade in (("a/1", 0), ("a/2", 5), ("b/1", 250), ("b/2", 255)):
        picture(tmp_path / name, shade)
    (tmp_path / "a" / "0.png").write_text("text")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "0.png").touch()
    features = embed_labelled(find_labelled(tmp_path), encoder)
    assert features.classes == ["a", "b", "c"]
    assert features.labels.tolist() == [0, 0, 1, 1]
    assert (features.kept.tolist(), features.held_out) == ([1, 2, 3, 4], None)
    assert (features.class_count, len(features.skipped)) == (2, 2)
    assert evaluate_knn(features.vectors, features.labels, k=1).figures[0].value == 1.0


def test_the_test_part_goes_with_the_photos_that_are_left(tmp_path: Path, encoder: Encoder) -> None:
    for name in ("train/a/1", "train/b/1", "test/a/1", "test/b/1"):
        picture(tmp_path / name, 9)
    (tmp_path / "test" / "a" / "0.png").touch()
    features = embed_labelled(find_labelled(tmp_path), encoder)
    assert features.held_out is not None
    assert features.held_out.tolist() == [True, True, False, False]
    assert features.kept.tolist() == [1, 2, 3, 4]
    for name in ("train/a/1.png", "test/b/1.png"):
        (tmp_path / name).write_text("text")
    with pytest.raises(NotLabelled, match="3 more cannot be read"):  # of the parts each has a class of its own
        embed_labelled(find_labelled(tmp_path), encoder)


def test_what_is_left_must_still_be_of_two_classes(tmp_path: Path, encoder: Encoder) -> None:
    picture(tmp_path / "a" / "1", 0)
    picture(tmp_path / "a" / "2", 0)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.png").touch()
    with pytest.raises(NotLabelled, match="1 more cannot be read"):
        embed_labelled(find_labelled(tmp_path), encoder)


def test_a_folder_of_which_nothing_can_be_read_is_an_error(tmp_path: Path, encoder: Encoder) -> None:
    (tmp_path / "1.png").touch()
    with pytest.raises(NoPhotos, match="None of the 1 photos can be read"):
        embed_folder([tmp_path / "1.png"], encoder)
