"""`--init` takes ResNets of torchvision, wherever they come from, and nothing else."""

from pathlib import Path

import pytest
import timm
import torch

from mocosearch.encoders import IMAGENET, Encoder, EncoderCard, load_encoder
from mocosearch.errors import BadRecipe
from mocosearch.nets import build_backbone
from mocosearch.recipes import load_recipe
from mocosearch.training.prepare import new_run

CPU = torch.device("cpu")


def refuse(init: Encoder, message: str, folder: Path) -> None:
    run, recipe = folder / "run", load_recipe("moco_v2_small")
    with pytest.raises(BadRecipe, match=message) as caught:
        new_run(folder / "photos", recipe, recipe_name="moco_v2_small", folder=run, minutes=None, init=init)
    assert "\n" not in str(caught.value)
    assert not run.exists()


def test_a_network_of_timm_is_refused_in_one_line_before_anything_is_done(tmp_path: Path) -> None:
    torch.save(timm.create_model("test_vit").state_dict(), tmp_path / "vit.pth")
    vit = load_encoder(f"timm:test_vit={tmp_path / 'vit.pth'}", CPU)
    refuse(vit, "cannot take timm:test_vit: training builds ResNets", tmp_path)


@pytest.mark.parametrize(("padding", "relu"), [(2, True), (1, False)])
def test_a_stem_that_training_does_not_build_is_refused(padding: int, relu: bool, tmp_path: Path) -> None:
    network = build_backbone("resnet18", small_stem=True, stem_padding=padding, stem_relu=relu)
    card = EncoderCard("resnet18", True, None, "photos", 8, 1, "solo-learn", "", stem_padding=padding, stem_relu=relu)
    refuse(Encoder(network, card, IMAGENET, CPU), "the first convolution of solo-learn", tmp_path)
