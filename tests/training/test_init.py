"""`--init` takes every encoder that can be loaded, and its first weights, stem and normalization are those of it."""

from pathlib import Path

import pytest
import timm
import torch

from mocosearch.encoders import IMAGENET, Encoder, EncoderCard, load_encoder
from mocosearch.errors import BadRecipe
from mocosearch.nets import build_backbone
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training.prepare import new_run, resumed_run
from mocosearch.training.run import Run

CPU = torch.device("cpu")


def still(tiny_recipe: Recipe) -> Recipe:
    """A recipe that moves no weight by more than rounding."""
    return tiny_recipe.model_copy(update={"optimizer": tiny_recipe.optimizer.model_copy(update={"lr": 1e-12})})


def run_from(init: Encoder, photos: Path, recipe: Recipe, folder: Path) -> Run:
    return new_run(
        photos,
        recipe,
        recipe_name="demo",
        folder=folder / "run",
        minutes=None,
        init=init,
        pack_folder=folder / "pack",
        workers=0,
    )


def assert_weights_kept(init: Encoder, trained: Encoder) -> None:
    before, after = dict(init.network.named_parameters()), dict(trained.network.named_parameters())
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor)


def test_a_network_of_timm_is_continued_with_its_own_normalization(
    photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    torch.save(timm.create_model("test_resnet", num_classes=0).state_dict(), tmp_path / "net.pth")
    init = load_encoder(f"timm:test_resnet={tmp_path / 'net.pth'}", CPU)
    assert init.preprocessing.mean != IMAGENET.mean
    run = run_from(init, photos, still(tiny_recipe), tmp_path)
    trained = load_encoder(run.train(on_step=lambda report: None), CPU)
    assert trained.card.architecture == "timm:test_resnet"
    assert (trained.preprocessing.mean, trained.preprocessing.std) == (init.preprocessing.mean, init.preprocessing.std)
    assert trained.preprocessing.crop == tiny_recipe.encoder_input.crop
    assert_weights_kept(init, trained)


def test_a_resumed_run_knows_the_network_of_timm(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    torch.save(timm.create_model("test_resnet", num_classes=0).state_dict(), tmp_path / "net.pth")
    run = run_from(load_encoder(f"timm:test_resnet={tmp_path / 'net.pth'}", CPU), photos, tiny_recipe, tmp_path)
    with pytest.raises(Exception, match="--resume"):
        run.train(on_step=lambda report: None, stop=lambda: True)
    encoder = load_encoder(resumed_run(tmp_path / "run", workers=0).train(on_step=lambda report: None), CPU)
    assert encoder.card.architecture == "timm:test_resnet"


@pytest.mark.parametrize(("padding", "relu"), [(2, True), (1, False)])
def test_a_stem_of_another_project_is_kept(
    padding: int, relu: bool, photos: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    network = build_backbone("resnet18", small_stem=True, stem_padding=padding, stem_relu=relu)
    card = EncoderCard("resnet18", True, None, "photos", 8, 1, "solo-learn", "", stem_padding=padding, stem_relu=relu)
    init = Encoder(network, card, IMAGENET, CPU)
    trained = load_encoder(run_from(init, photos, still(tiny_recipe), tmp_path).train(on_step=lambda report: None), CPU)
    assert (trained.card.small_stem, trained.card.stem_padding, trained.card.stem_relu) == (True, padding, relu)
    assert_weights_kept(init, trained)


def test_a_network_that_takes_one_size_alone_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    torch.save(timm.create_model("test_vit_relpos").state_dict(), tmp_path / "vit.pth")
    vit = load_encoder(f"timm:test_vit_relpos={tmp_path / 'vit.pth'}", CPU)
    with pytest.raises(
        BadRecipe, match=r"timm:test_vit_relpos takes no pictures of 96 pixels .*--set views\.crop"
    ) as caught:
        run_from(vit, tmp_path / "photos", load_recipe("moco_v2_small"), tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
