"""`--init` takes ResNets of torchvision, wherever they come from, and nothing else."""

from pathlib import Path

import pytest
import timm
import torch

from mocosearch.encoders import load_encoder
from mocosearch.errors import BadRecipe
from mocosearch.recipes import load_recipe
from mocosearch.training.prepare import new_run


def test_a_network_of_timm_is_refused_in_one_line_before_anything_is_done(tmp_path: Path) -> None:
    torch.save(timm.create_model("test_vit").state_dict(), tmp_path / "vit.pth")
    vit = load_encoder(f"timm:test_vit={tmp_path / 'vit.pth'}", torch.device("cpu"))
    run = tmp_path / "run"
    recipe = load_recipe("moco_v2_small")
    with pytest.raises(BadRecipe, match="cannot take timm:test_vit: training builds ResNets") as caught:
        new_run(tmp_path / "photos", recipe, recipe_name="moco_v2_small", folder=run, minutes=None, init=vit)
    assert "\n" not in str(caught.value)
    assert not run.exists()
