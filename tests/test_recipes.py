from itertools import pairwise
from math import cos, pi
from pathlib import Path

import pytest
import yaml

from mocosearch.errors import BadRecipe
from mocosearch.recipes import known_keys, load_recipe, recipe_names, validate_recipe
from mocosearch.training.schedule import learning_rate


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_valid_and_survives_being_written(name: str) -> None:
    recipe = load_recipe(name)
    assert validate_recipe(yaml.safe_load(yaml.safe_dump(recipe.model_dump(mode="json")))) == recipe


def test_the_papers_recipes_say_what_the_papers_say() -> None:
    v1, v2 = load_recipe("moco_v1"), load_recipe("moco_v2")
    for recipe in (v1, v2):
        assert recipe.backbone.architecture == "resnet50"
        assert (recipe.method.queue, recipe.method.momentum, recipe.method.feature_dim) == (65536, 0.999, 128)
        assert (recipe.optimizer.name, recipe.optimizer.lr, recipe.optimizer.weight_decay) == (
            "sgd",
            0.03,
            1e-4,
        )
        assert (recipe.batch, recipe.method.batch_norm_groups, recipe.schedule.epochs) == (256, 8, 200)
        assert (recipe.views.crop, recipe.views.scale, recipe.views.grayscale) == (224, (0.2, 1.0), 0.2)
    assert (v1.method.temperature, v1.method.head, v1.schedule.shape) == (0.07, "linear", "steps")
    assert (v2.method.temperature, v2.method.head, v2.schedule.shape) == (0.2, "mlp", "cosine")
    assert v1.views.order == ("grayscale", "color_jitter")
    assert v2.views.order == ("color_jitter", "grayscale", "blur")
    assert (v1.views.color_jitter.p, v1.views.color_jitter.hue) == (1.0, 0.4)
    assert (v2.views.color_jitter.p, v2.views.color_jitter.hue, v2.views.blur.p) == (0.8, 0.1, 0.5)


def test_overrides_change_one_key_each() -> None:
    recipe = load_recipe("moco_v2", ["method.queue=128", "views.scale=[0.5, 1.0]", "backbone.small_stem=true"])
    assert recipe.method.queue == 128
    assert recipe.views.scale == (0.5, 1.0)
    assert recipe.backbone.small_stem
    assert recipe.optimizer == load_recipe("moco_v2").optimizer


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimzer.lr=1", r"Unknown recipe key 'optimzer.lr' \(did you mean 'optimizer.lr'\?\)"),
        ("zzz=1", r"Unknown recipe key 'zzz': `mocosearch recipes show NAME`"),
        ("queue=3", "did you mean 'method.queue'"),
        ("optimizer.lr=fast", "'optimizer.lr': input should be a valid number"),
        ("optimizer.lr", "not of the form key=value"),
        ("method.temperature=0", "'method.temperature': input should be greater than 0"),
        ("views.order=[blur, sharpen]", r"'views.order.1'"),
        ("method.queue=0", "method.queue"),
        ("views.scale=[0.9, 0.2]", "views.scale"),
        ("views.scale=[0, 1]", "views.scale"),
        ("optimizer.lr=[", "not YAML"),
        ("optimizer.lr=" + 5000 * "[", "not YAML"),
        ("seed=" + 5000 * "9", "not YAML"),
        ("seed=2001-99-99", "not YAML"),
        ("seed=!!int ''", "not YAML"),
        ("seed=!!bool x", "not YAML"),
        ("seed=!!timestamp x", "not YAML"),
        ("seed=0x" + 5000 * "f", "'seed'.*not a number with hundreds of digits"),
        ("seed=9223372036854775808", "'seed': input should be less than 9223372036854775808"),
        ("seed=-9223372036854775809", "'seed': input should be greater than or equal to"),
        ("optimizer.momentum=1.0", "'optimizer.momentum': input should be less than 1"),
        ("optimizer.weight_decay=.inf", "'optimizer.weight_decay': input should be a finite number"),
        ("optimizer.lr=.nan", "'optimizer.lr'"),
        ("views.blur.sigma=[0.1, .inf]", "'views.blur.sigma.1': input should be a finite number"),
        ("views.color_jitter.brightness=.inf", "'views.color_jitter.brightness': input should be a finite number"),
        ("method.feature_dim=65537", "'method.feature_dim': input should be less than or equal to 65536"),
        ("views.crop=4097", "'views.crop': input should be less than or equal to 4096"),
        ("encoder_input.resize=4097", "'encoder_input.resize': input should be less than or equal to 4096"),
        ("encoder_input.crop=4097", "'encoder_input.crop': input should be less than or equal to 4096"),
        ("encoder_input.crop=300", "'encoder_input': value error, the crop of 300 pixels should not be larger than"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(override: str, message: str) -> None:
    with pytest.raises(BadRecipe, match=message) as caught:
        load_recipe("moco_v2", [override])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_network_of_timm_has_a_stem_of_its_own() -> None:
    small = "backbone.small_stem=true"
    with pytest.raises(BadRecipe, match=r"'backbone': .*small_stem is for ResNets of torchvision, such as backbone\."):
        load_recipe("moco_v2_small", [small])
    assert load_recipe("moco_v2_small", [small, "backbone.architecture=resnet18"]).backbone.small_stem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: moco\n", "'method': input should be a section with keys, not 'moco'"),
        ("method:\n", "'method': input should be a section with keys, not None"),
        (5000 * "[", "is not YAML"),
        ("seed: 2001-99-99\n", "is not YAML"),
    ],
)
def test_a_file_of_another_shape_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(BadRecipe, match=message) as caught:
        load_recipe(str(path), ["method.queue=3"])
    assert "\n" not in str(caught.value)


def test_seeds_reach_as_far_as_64_bits() -> None:
    for seed in (-(2**63), 2**63 - 1):
        assert load_recipe("demo", [f"seed={seed}"]).seed == seed


def test_a_file_with_a_mistyped_key_names_the_nearest_known_one(tmp_path: Path) -> None:
    content = load_recipe("demo").model_dump(mode="json")
    content["method"]["temprature"] = content["method"].pop("temperature")
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(BadRecipe, match=r"method.temp"):
        load_recipe(str(path))


def test_an_unknown_recipe_names_the_known_ones() -> None:
    with pytest.raises(BadRecipe, match=r"did you mean 'moco_v2'\?.*known: demo"):
        load_recipe("mocov2")


def test_every_key_can_be_set_on_the_command_line() -> None:
    keys = set(known_keys({}))
    assert {"batch", "seed", "method.queue", "views.color_jitter.hue", "optimizer.lr"} <= keys
    assert not {"method", "views.color_jitter"} & keys


@pytest.mark.parametrize(("epoch", "expected"), [(0, 0.03), (119, 0.03), (120, 0.003), (160, 0.0003), (199, 0.0003)])
def test_the_v1_schedule_drops_at_epochs_120_and_160(epoch: int, expected: float) -> None:
    rate = learning_rate(load_recipe("moco_v1"), total_steps=200 * 5, steps_per_epoch=5)
    assert rate(epoch * 5) == pytest.approx(expected)
    assert rate(epoch * 5 + 4) == pytest.approx(expected)


def test_a_warm_up_rises_in_equal_steps_to_the_schedule_that_follows() -> None:
    warmed = load_recipe("moco_v2_small", ["schedule.warmup=0.1", "schedule.per=step"])
    rates = [learning_rate(warmed, total_steps=200, steps_per_epoch=7)(step) for step in range(200)]
    plain = load_recipe("moco_v2_small", ["schedule.per=step", "schedule.warmup=0"])
    without = [learning_rate(plain, total_steps=200, steps_per_epoch=7)(step) for step in range(200)]
    assert [rate / full for rate, full in zip(rates[:20], without[:20], strict=True)] == pytest.approx(
        [(step + 1) / 20 for step in range(20)]
    )
    assert rates[20:] == without[20:]


def test_the_v2_schedule_is_a_cosine_that_is_constant_within_an_epoch() -> None:
    rate = learning_rate(load_recipe("moco_v2"), total_steps=200 * 5, steps_per_epoch=5)
    assert rate(0) == rate(4) == pytest.approx(0.03)
    assert rate(100 * 5) == pytest.approx(0.015)
    assert rate(999) == pytest.approx(0.03 * 0.5 * (1 + cos(pi * 199 / 200)))


def test_the_learning_rate_scales_with_the_batch() -> None:
    recipe = load_recipe("moco_v2", ["batch=128"])
    assert learning_rate(recipe, total_steps=10, steps_per_epoch=1)(0) == pytest.approx(0.015)


def test_per_step_the_rate_changes_at_every_step() -> None:
    rate = learning_rate(load_recipe("demo"), total_steps=100, steps_per_epoch=10)
    rates = [rate(step) for step in range(100)]
    assert all(a > b for a, b in pairwise(rates))
    assert rates[-1] < 0.001 * rates[0]
