"""What the studies vary, and that they vary nothing else."""

import pytest

from mocosearch.ablations import STUDIES, Baseline
from mocosearch.recipes import Recipe, load_recipe

K = 512


@pytest.fixture
def baseline() -> Baseline:
    return Baseline(load_recipe("demo", [f"method.queue={K}"]), photos=2000)


def settings(baseline: Baseline, study: str) -> dict[str, Recipe]:
    return {setting: cell.recipe for setting, cell in STUDIES[study](baseline).cells}


def test_queue_goes_from_the_batch_to_what_keeps_a_photo_from_being_its_own_negative(baseline: Baseline) -> None:
    lengths = [recipe.method.queue for recipe in settings(baseline, "queue").values()]
    assert lengths == [64, 256, K, 1024]
    assert baseline.photos - baseline.recipe.batch >= max(lengths)


def test_momentum_includes_the_copied_encoder_and_the_papers_values(baseline: Baseline) -> None:
    assert [recipe.method.momentum for recipe in settings(baseline, "momentum").values()] == [
        0,
        0.9,
        0.99,
        0.999,
        0.9999,
    ]


@pytest.mark.parametrize(
    ("study", "key"), [("queue", "queue"), ("momentum", "momentum"), ("temperature", "temperature")]
)
def test_a_cell_differs_from_the_baseline_in_the_studied_key_alone(baseline: Baseline, study: str, key: str) -> None:
    kept = baseline.recipe.model_dump(exclude={"method": {key}})
    cells = settings(baseline, study).values()
    assert baseline.recipe in cells
    for recipe in cells:
        assert recipe.model_dump(exclude={"method": {key}}) == kept


def test_dictionaries_share_head_temperature_and_everything_around_them(baseline: Baseline) -> None:
    recipes = settings(baseline, "dictionary")
    assert [recipe.method.name for recipe in recipes.values()] == [
        "moco",
        "memory_bank",
        "end_to_end",
        "moco",
        "memory_bank",
    ]
    for recipe in recipes.values():
        assert recipe.model_dump(exclude={"method"}) == baseline.recipe.model_dump(exclude={"method"})
        assert (recipe.method.head, recipe.method.temperature) == ("mlp", 0.1)


def test_a_dictionary_is_compared_once_where_the_queue_is_as_long_as_the_batch() -> None:
    small = Baseline(load_recipe("demo", ["batch=8", "method.queue=8"]), photos=20)
    assert list(settings(small, "dictionary")) == ["queue, K 8", "memory bank, K 8", "end-to-end, K 7"]


def test_recipe_goes_from_v1_to_v2_one_change_at_a_time(baseline: Baseline) -> None:
    recipes = list(settings(baseline, "recipe").values())
    v1, v2 = load_recipe("moco_v1"), load_recipe("moco_v2")
    facts = [(one.method.head, one.method.temperature, one.views.order, one.schedule.shape) for one in recipes]
    assert facts == [
        ("linear", 0.07, v1.views.order, "steps"),
        ("mlp", 0.2, v1.views.order, "steps"),
        ("mlp", 0.2, v2.views.order, "steps"),
        ("mlp", 0.2, v2.views.order, "cosine"),
    ]
    assert recipes[0].schedule.milestones == v1.schedule.milestones
    for recipe in recipes:
        assert (recipe.views.crop, recipe.batch, recipe.backbone) == (32, 64, baseline.recipe.backbone)
        assert recipe.optimizer == baseline.recipe.optimizer


def test_the_same_recipe_is_one_cell_whatever_study_asks_for_it(baseline: Baseline) -> None:
    cells = [cell for study in STUDIES.values() for _, cell in study(baseline).cells]
    names = {cell.name: cell.recipe for cell in cells}
    assert len({recipe.model_dump_json() for recipe in names.values()}) == len(set(cells)) == len(names)
    assert sum(cell.name == "baseline" for cell in cells) == 4  # in every study but `recipe`
    assert all("/" not in name for name in names)


def test_repeats_differ_in_the_seed_alone(baseline: Baseline) -> None:
    repeats = baseline.repeats(3)
    assert [cell.recipe.seed for cell in repeats] == [0, 1, 2]
    assert repeats[0].name == "baseline"
    assert len({cell.recipe.model_copy(update={"seed": 0}) for cell in repeats}) == 1
