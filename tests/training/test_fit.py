"""Recipes are made to fit the photos, and say what was changed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch.errors import NoPhotos
from mocosearch.images.packed import PackedPhoto
from mocosearch.images.view_parameters import packed_short_side
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training.fit import fit_to_collection, fit_to_photos
from mocosearch.training.prepare import new_run
from mocosearch.training.run_folder import RunFolder
from mocosearch_index.records import FileStamp


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
    recipe = load_recipe("moco_v2_small", ["views.crop=96", "views.fit_photos=0.5", *input_size])
    fitted, notices = fit_to_photos(recipe, packed(*sizes))
    assert (fitted.views.crop, fitted.encoder_input.crop, fitted.encoder_input.resize) == (crop, seen, seen)
    assert len(notices) == (crop < 96)
    kept = recipe.views.model_copy(update={"fit_photos": 0.0})
    assert fit_to_photos(recipe.model_copy(update={"views": kept}), packed(*sizes))[0].views.crop == 96


@pytest.mark.parametrize(("side", "crop", "seen"), [(64, 64, 96), (90, 88, 132), (100, 96, 144)])
def test_crops_of_a_continued_run_are_no_larger_than_the_photos(side: int, crop: int, seen: int) -> None:
    fitted, _ = fit_to_photos(load_recipe("moco_v2_continued"), packed(*[(side, 2 * side)] * 9))
    assert (fitted.views.crop, fitted.encoder_input.crop, fitted.encoder_input.resize) == (crop, seen, seen)


@given(
    side=st.integers(20, 3000),
    crop=st.integers(16, 256),
    share=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
    smallest=st.sampled_from([0.08, 0.2, 0.4, 1.0]),
)
def test_only_crops_of_small_photos_are_made_smaller_and_only_once(
    side: int, crop: int, share: float, smallest: float
) -> None:
    views = [f"views.crop={crop}", f"views.fit_photos={share}", f"views.scale=[{smallest}, 1.0]"]
    recipe = load_recipe("moco_v2_small", views)

    def reduced(for_recipe: Recipe) -> list[PackedPhoto]:
        return packed(*[(min(side, packed_short_side(for_recipe.views)), side)] * 9)

    fitted, _ = fit_to_photos(recipe, reduced(recipe))
    if side * share >= crop:
        assert fitted == recipe
    assert fit_to_photos(fitted, reduced(fitted)) == (fitted, [])


def test_a_run_on_small_photos_has_the_pack_that_its_own_recipe_needs(photos: Path, tmp_path: Path) -> None:
    recipe = load_recipe("moco_v2_small", ["batch=8"])
    run = new_run(
        photos,
        recipe,
        recipe_name="moco_v2_small",
        folder=tmp_path / "run",
        minutes=None,
        pack_folder=tmp_path / "pack",
    )
    assert run.recipe.views.crop == 32
    assert load_recipe(str(tmp_path / "run" / "recipe.yaml")) == run.recipe
    facts = RunFolder(tmp_path / "run").facts()
    assert Path(facts.pack_folder) == tmp_path / "pack" / str(packed_short_side(run.recipe.views))
    assert (Path(facts.pack_folder) / "pack.sqlite").exists()


def test_fewer_than_eight_photos_are_an_error() -> None:
    with pytest.raises(NoPhotos, match="at least 8 photos that can be read; found 7"):
        fit_to_collection(load_recipe("demo"), 7)
