import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mocosearch.errors import NoPhotos
from mocosearch.images.packed import PackedPhoto
from mocosearch.methods import MoCo
from mocosearch.nets import build_backbone, feature_dim
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training.build import build_method, build_optimizer, fit_to_collection, fit_to_photos
from mocosearch_index.records import FileStamp

CPU = torch.device("cpu")
GIVEN = {"lr", "momentum", "betas", "weight_decay"}  # by the recipe


def recipe_with(*, batch: int, groups: int, queue: int | str) -> Recipe:
    return load_recipe("moco_v2", [f"batch={batch}", f"method.batch_norm_groups={groups}", f"method.queue={queue}"])


@given(
    photos=st.integers(8, 300_000),
    batch=st.sampled_from([2, 7, 32, 256, 1000]),
    groups=st.sampled_from([1, 2, 8]),
    queue=st.sampled_from(["auto", 1, 512, 65536]),
)
def test_batch_groups_and_queue_fit_the_collection(photos: int, batch: int, groups: int, queue: int | str) -> None:
    fitted, _ = fit_to_collection(recipe_with(batch=batch, groups=groups, queue=queue), photos)
    method = fitted.method
    assert 1 <= fitted.batch <= min(batch, photos // 2)
    assert fitted.batch % method.batch_norm_groups == 0
    assert isinstance(method.queue, int)
    assert 1 <= method.queue <= photos - fitted.batch  # no image is its own negative
    if queue == "auto" or queue > photos - fitted.batch:
        assert method.queue == min(max(fitted.batch, min(65536, photos // 4)), photos - fitted.batch)
    else:
        assert method.queue == queue


def test_a_collection_as_large_as_imagenet_changes_nothing() -> None:
    recipe = load_recipe("moco_v2")
    fitted, notices = fit_to_collection(recipe, 1_281_167)
    assert fitted == recipe
    assert notices == []


def test_what_was_changed_is_said() -> None:
    _, notices = fit_to_collection(load_recipe("moco_v2"), 100)
    assert len(notices) == 3
    assert "batch 48 instead of 256" in notices[0]
    assert "6 batch-norm groups instead of 8, to fit" in notices[1]
    assert "K 48 instead of 65536" in notices[2]


def packed(*sizes: tuple[int, int]) -> list[PackedPhoto]:
    return [PackedPhoto(FileStamp(b"photo", 1, 1), 0, height, width) for height, width in sizes]


@pytest.mark.parametrize(
    ("sizes", "crop", "seen"),
    [
        ([(64, 64)] * 9, 32, 64),  # half of the tiles, which are seen whole
        ([(20, 30)] * 9, 32, 48),  # never below 32
        ([(300, 180), (130, 400), (40, 40)], 64, 130),  # half of 130, the middle one, in steps of 8
        ([(400, 300)] * 9 + [(32, 32)] * 8, 96, 144),  # most are large
    ],
)
def test_crops_are_at_most_half_of_small_photos(sizes: list[tuple[int, int]], crop: int, seen: int) -> None:
    input_size = ["encoder_input.resize=144", "encoder_input.crop=144"]
    recipe = load_recipe("moco_v2_small", ["views.crop=96", "views.fit_photos=true", *input_size])
    fitted, notices = fit_to_photos(recipe, packed(*sizes))
    assert (fitted.views.crop, fitted.encoder_input.crop, fitted.encoder_input.resize) == (crop, seen, seen)
    assert len(notices) == (crop < 96)
    kept = recipe.views.model_copy(update={"fit_photos": False})
    assert fit_to_photos(recipe.model_copy(update={"views": kept}), packed(*sizes))[0].views.crop == 96


def test_fewer_than_eight_photos_are_an_error() -> None:
    with pytest.raises(NoPhotos, match="at least 8 photos that can be read; found 7"):
        fit_to_collection(load_recipe("demo"), 7)


def test_weights_depend_on_the_seed_alone_and_leave_torchs_generator_alone() -> None:
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = build_method(fit_to_collection(load_recipe("demo"), 100)[0], CPU, photos=100)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    second = build_method(fit_to_collection(load_recipe("demo"), 100)[0], CPU, photos=100)
    other = build_method(fit_to_collection(load_recipe("demo", ["seed=1"]), 100)[0], CPU, photos=100)
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
