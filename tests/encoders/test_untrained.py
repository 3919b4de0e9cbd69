"""An untrained twin: the same network and preprocessing, other weights, the same each time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.encoders import Encoder, EncoderCard, Preprocessing, load_encoder, untrained_like
from mocosearch.encoders.sources import new_network

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8))


def encoder(architecture: str = "resnet18", **stem: bool | int) -> Encoder:
    card = EncoderCard(
        architecture, **{"small_stem": True, **stem}, feature_dim=128, trained_on="tiles", photos=9, steps=9,
        recipe="moco_v2", created="2026-01-01T00:00:00",
    )  # fmt: skip
    preprocessing = Preprocessing(36, 32, (0.5, 0.4, 0.3), (0.25, 0.2, 0.1))
    return Encoder(new_network(card), card, preprocessing, torch.device("cpu"))


@pytest.mark.parametrize(
    ("architecture", "stem"),
    [("resnet18", {"stem_padding": 2, "stem_relu": False}), ("resnet50", {"small_stem": False})],
)
def test_the_twin_has_the_same_network_and_preprocessing_but_other_weights(
    architecture: str, stem: dict[str, bool | int]
) -> None:
    trained = encoder(architecture, **stem)
    twin = untrained_like(trained)
    ours, theirs = trained.network.state_dict(), twin.network.state_dict()
    assert {name: tensor.shape for name, tensor in ours.items()} == {n: tensor.shape for n, tensor in theirs.items()}
    assert not torch.equal(ours["layer1.0.conv1.weight"], theirs["layer1.0.conv1.weight"])
    assert (twin.preprocessing, twin.device, twin.dim) == (trained.preprocessing, trained.device, trained.dim)
    vector = twin.embed_image(NOISE)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(vector, trained.embed_image(NOISE), atol=1e-3)
    # Stem and ReLU are those of the trained one: its weights give its vectors in the twin's network.
    twin.network.load_state_dict(ours)
    np.testing.assert_allclose(
        Encoder(twin.network, twin.card, twin.preprocessing, twin.device).embed_image(NOISE),
        trained.embed_image(NOISE),
        atol=1e-6,
    )


def test_its_card_says_that_it_is_untrained_and_it_can_be_saved(tmp_path: Path) -> None:
    twin = untrained_like(encoder())
    assert twin.card.description == "resnet18, untrained"
    twin.save(tmp_path / "encoder")
    assert load_encoder(tmp_path / "encoder", torch.device("cpu")).fingerprint == twin.fingerprint


def test_the_weights_are_a_function_of_the_seed_and_no_generator_is_moved() -> None:
    trained = encoder()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = untrained_like(trained, seed=1).fingerprint
    assert torch.equal(torch.rand(3), expected)
    assert untrained_like(trained, seed=1).fingerprint == first
    assert untrained_like(trained, seed=2).fingerprint != first


def test_a_network_of_timm_has_a_twin() -> None:
    card = EncoderCard("timm:vit_tiny_patch16_224", False, None, "tiles", 9, 9, "timm", "")
    preprocessing = Preprocessing(224, 224, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    trained = Encoder(new_network(card), card, preprocessing, torch.device("cpu"))
    twin, again = untrained_like(trained), untrained_like(trained)
    assert twin.fingerprint == again.fingerprint != trained.fingerprint
    assert np.isfinite(twin.embed_image(NOISE)).all()
