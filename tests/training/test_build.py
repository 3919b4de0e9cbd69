import pytest
import torch

from mocosearch.methods import MoCo
from mocosearch.nets import build_backbone, feature_dim
from mocosearch.recipes import load_recipe
from mocosearch.training.build import build_method, build_optimizer
from mocosearch.training.fit import fit_to_collection

RESNET = "backbone.architecture=resnet18"
CPU = torch.device("cpu")
GIVEN = {"lr", "momentum", "betas", "weight_decay"}  # by the recipe


def test_weights_depend_on_the_seed_alone_and_leave_torchs_generator_alone() -> None:
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = build_method(fit_to_collection(load_recipe("demo", [RESNET]), 100)[0], CPU, photos=100)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    second = build_method(fit_to_collection(load_recipe("demo", [RESNET]), 100)[0], CPU, photos=100)
    other = build_method(fit_to_collection(load_recipe("demo", [RESNET, "seed=1"]), 100)[0], CPU, photos=100)
    weights = [m.query_encoder.backbone.conv1.weight for m in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_only_the_query_encoder_is_optimized_and_all_of_it_decays() -> None:
    recipe, _ = fit_to_collection(load_recipe("moco_v2", ["backbone.architecture=resnet18"]), 100)
    method = build_method(recipe, CPU, photos=100)
    assert isinstance(method, MoCo)
    optimizer = build_optimizer(recipe, method)
    (group,) = optimizer.param_groups
    assert [id(p) for p in group["params"]] == [id(p) for p in method.query_encoder.parameters()]
    assert (group["weight_decay"], group["momentum"]) == (1e-4, 0.9)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_the_fused_optimizer_updates_channels_last_weights_as_the_plain_one_does(name: str) -> None:
    recipe, _ = fit_to_collection(load_recipe("moco_v2_small", [f"optimizer.name={name}"]), 100)
    fused, plain = (build_method(recipe, CPU, photos=100).query_encoder for _ in range(2))
    kind = torch.optim.SGD if name == "sgd" else torch.optim.AdamW
    ours, expected = build_optimizer(recipe, fused), kind(plain.parameters(), fused=False)
    expected.param_groups[0] |= {key: value for key, value in ours.param_groups[0].items() if key in GIVEN}
    for step in range(3):
        for network, optimizer in ((fused, ours), (plain, expected)):
            torch.manual_seed(step)
            for parameter in network.parameters():
                parameter.grad = torch.randn_like(parameter)
            optimizer.step()
    for one, other in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("architecture", "dim"), [("resnet18", 512), ("resnet50", 2048)])
def test_backbones_give_vectors_of_their_feature_dim(architecture: str, dim: int) -> None:
    backbone = build_backbone(architecture).eval()
    assert feature_dim(backbone) == dim
    assert backbone(torch.zeros(1, 3, 64, 64)).shape == (1, dim)


def test_the_small_stem_keeps_the_resolution_of_a_small_image() -> None:
    backbone = build_backbone("resnet18", small_stem=True).eval()
    sizes = []
    backbone.layer1.register_forward_hook(lambda module, inputs, output: sizes.append(tuple(output.shape[2:])))
    backbone(torch.zeros(1, 3, 32, 32))
    assert sizes == [(32, 32)]
