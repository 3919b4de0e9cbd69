"""The batched views against torchvision's functions, operation by operation, given the same parameters."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from mocosearch.images import color
from mocosearch.images.packed import cut, write_flat
from mocosearch.images.view_parameters import ViewParameters, draw_parameters, largest_crops, packed_short_side
from mocosearch.images.views import as_pixels, blur, make_view, resize_each, resize_flat, view_of_flat
from mocosearch.recipes import ViewsSection, load_recipe

CPU = torch.device("cpu")
VIEWS = load_recipe("moco_v2").views


def photo(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def as_tensor(image: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(image).permute(2, 0, 1).float() / 255


def batch(count: int, size: int = 12, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(seed))


def column(values: list[float]) -> torch.Tensor:
    return torch.tensor(values)[:, None, None, None]


def draw(views: ViewsSection, count: int, *, height: int = 100, width: int = 100, **keys: int) -> ViewParameters:
    sizes = np.tile([[height, width]], (count, 1))
    return draw_parameters(views, sizes, **{"seed": 0, "epoch": 0, "view": 0, **keys}, ids=np.arange(count))


def flat(crops: list[np.ndarray]) -> torch.Tensor:
    """The crops' bytes one after the other, as a worker hands them to a GPU, and something behind them."""
    out = np.full(sum(crop.size for crop in crops) + 100, 255, dtype=np.uint8)
    assert write_flat(crops, out) == len(out) - 100
    return torch.from_numpy(out)


def resized(how: str, crops: list[np.ndarray], size: int) -> torch.Tensor:
    if how == "each":
        return resize_each(crops, size)
    return resize_flat(flat(crops), np.array([crop.shape[:2] for crop in crops]), size)


@pytest.mark.parametrize("how", ["each", "flat"])
@given(height=st.integers(1, 60), width=st.integers(1, 60), size=st.sampled_from([8, 13, 32]), data=st.data())
def test_crop_and_resize_equal_torchvision(how: str, height: int, width: int, size: int, data: st.DataObject) -> None:
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    box = (top, left, data.draw(st.integers(1, height - top)), data.draw(st.integers(1, width - left)))
    images = [photo(height, width), photo(50, 40, seed=1), photo(9, 70, seed=2)]  # padding matters for each of them
    boxes = np.array([box, (3, 4, 20, 30), (0, 1, 9, 12)])
    ours = resized(how, cut(images, boxes), size)
    for out, image, where in zip(ours, images, boxes.tolist(), strict=True):
        expected = F.resized_crop(as_tensor(image), *where, [size, size], antialias=True)
        torch.testing.assert_close(out, expected, atol=2e-5, rtol=0)


def test_a_rank_without_a_photo_gets_views_of_none() -> None:
    drawn = draw_parameters(VIEWS, np.empty((0, 2)), seed=0, epoch=0, ids=np.arange(0), view=0)
    assert view_of_flat(torch.empty(0, dtype=torch.uint8), drawn, VIEWS).shape == (0, 3, VIEWS.crop, VIEWS.crop)


def test_a_batch_of_more_crops_than_are_resized_at_once_keeps_its_order() -> None:
    crops = [photo(5 + number % 7, 6 + number % 5, seed=number) for number in range(70)]
    torch.testing.assert_close(resized("flat", crops, 8), resized("each", crops, 8), atol=2e-5, rtol=0)


def test_a_view_is_the_same_however_its_crops_are_resized() -> None:
    images = [photo(90 + number, 70, seed=number) for number in range(40)]
    sizes = np.array([image.shape[:2] for image in images])
    views = VIEWS.model_copy(update={"crop": 32})
    drawn = draw_parameters(views, sizes, seed=0, epoch=0, ids=np.arange(40), view=0)
    on_cpu = make_view(images, drawn, views, CPU)
    as_on_gpu = view_of_flat(flat(cut(images, drawn.boxes)), drawn, views)
    for view in (on_cpu, as_on_gpu):
        assert view.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(on_cpu, as_on_gpu, atol=5e-4, rtol=0)


@pytest.mark.parametrize(
    ("ours", "theirs", "amounts"),
    [
        (color.brightness, F.adjust_brightness, [0.0, 0.6, 1.0, 1.4]),
        (color.contrast, F.adjust_contrast, [0.0, 0.6, 1.0, 1.4]),
        (color.saturation, F.adjust_saturation, [0.0, 0.6, 1.0, 1.4]),
        (color.hue, F.adjust_hue, [-0.5, -0.1, 0.0, 0.37]),
    ],
)
def test_color_operations_equal_torchvision(ours, theirs, amounts: list[float]) -> None:
    images = batch(4)
    images[0, :, :4] = 0.5  # gray, black and white have no hue
    images[1, :, :4] = 0.0
    images[2, :, :4] = 1.0
    for out, image, amount in zip(ours(images, column(amounts)), images, amounts, strict=True):
        torch.testing.assert_close(out, theirs(image, amount), atol=2e-5, rtol=0)


def test_each_image_is_jittered_in_its_own_order() -> None:
    images = batch(3)
    order = np.array([[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]])
    amount = np.array([[1.3, 0.7, 1.2, 0.1], [0.8, 1.4, 0.6, -0.1], [1.3, 0.7, 1.2, 0.1]])
    chosen = np.array([True, True, False])
    theirs = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
    ours = color.jitter(images.clone(), chosen, order, amount)
    for i in range(2):
        expected = images[i]
        for operation in order[i]:
            expected = theirs[operation](expected, amount[i, operation])
        torch.testing.assert_close(ours[i], expected, atol=5e-5, rtol=0)
    assert torch.equal(ours[2], images[2])


def test_grayscale_equals_torchvision_where_chosen() -> None:
    images = batch(2)
    ours = color.to_gray_where(images.clone(), np.array([False, True]))
    assert torch.equal(ours[0], images[0])
    torch.testing.assert_close(ours[1], F.rgb_to_grayscale(images[1], num_output_channels=3), atol=1e-6, rtol=0)


@given(sigmas=st.lists(st.floats(0.1, 2.0), min_size=1, max_size=4), size=st.sampled_from([16, 40]))
def test_blur_equals_torchvision_with_the_same_kernel(sigmas: list[float], size: int) -> None:
    images = batch(len(sigmas), size)
    blurred = blur(images, torch.tensor(sigmas, dtype=torch.float64))
    for ours, image, sigma in zip(blurred, images, sigmas, strict=True):
        reach = int(np.ceil(3 * sigma))
        expected = F.gaussian_blur(image, [2 * reach + 1] * 2, [sigma, sigma])
        torch.testing.assert_close(ours, expected, atol=2e-5, rtol=0)


def test_a_whole_view_is_the_recipes_operations_in_order() -> None:
    image = photo(90, 70)
    everything = VIEWS.model_copy(
        update={
            "grayscale": 1.0,
            "color_jitter": VIEWS.color_jitter.model_copy(update={"p": 1.0}),
            "blur": VIEWS.blur.model_copy(update={"p": 1.0}),
            "flip": 1.0,
        }
    )
    drawn = draw(everything, 1, height=90, width=70)
    expected = F.resized_crop(as_tensor(image), *drawn.boxes[0].tolist(), [224, 224], antialias=True)
    expected = F.hflip(expected)
    theirs = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
    for operation in drawn.jitter_order[0]:
        expected = theirs[operation](expected, drawn.jitter_amount[0, operation])
    expected = F.rgb_to_grayscale(expected, num_output_channels=3)
    reach = int(np.ceil(3 * drawn.sigma[0]))
    expected = F.gaussian_blur(expected, [2 * reach + 1] * 2, [drawn.sigma[0]] * 2)
    expected = F.normalize(expected, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    torch.testing.assert_close(make_view([image], drawn, everything, CPU)[0], expected, atol=5e-4, rtol=0)


def test_parameters_depend_on_seed_epoch_image_and_view_and_on_nothing_else() -> None:
    drawn = draw(VIEWS, 50)
    for key in ("seed", "epoch", "view"):
        other = draw(VIEWS, 50, **{key: 1})
        assert not np.array_equal(drawn.boxes, other.boxes), key
        assert not np.array_equal(drawn.jitter_amount, other.jitter_amount), key
    alone = draw_parameters(VIEWS, np.array([[100, 100]]), seed=0, epoch=0, ids=np.array([17]), view=0)
    assert np.array_equal(alone.boxes[0], drawn.boxes[17])
    assert np.array_equal(alone.jitter_amount[0], drawn.jitter_amount[17])
    assert len(np.unique(drawn.sigma)) == 50


@pytest.mark.parametrize(("height", "width"), [(100, 100), (60, 240), (300, 41)])
def test_crops_are_distributed_as_those_of_random_resized_crop(height: int, width: int) -> None:
    count = 6000
    ours = draw(VIEWS, count, height=height, width=width).boxes
    torch.manual_seed(0)
    theirs_draw = v2.RandomResizedCrop(224, scale=(0.2, 1.0))
    image = torch.empty(3, height, width)
    drawn = [theirs_draw.make_params([image]) for _ in range(count)]
    theirs = np.array([[one[key] for key in ("top", "left", "height", "width")] for one in drawn])
    assert (ours[:, 0] + ours[:, 2] <= height).all()
    assert (ours[:, 1] + ours[:, 3] <= width).all()
    assert (ours[:, 2:] <= largest_crops(np.array([[height, width]]))).all()
    assert ours.min() >= 0
    for name, statistic in {
        "area": lambda b: b[:, 2] * b[:, 3] / (height * width),
        "log ratio": lambda b: np.log(b[:, 3] / b[:, 2]),
        "center": lambda b: (b[:, 0] + b[:, 2] / 2) / height + (b[:, 1] + b[:, 3] / 2) / width,
    }.items():
        assert largest_gap(statistic(ours), statistic(theirs)) < 1.95 * np.sqrt(2 / count), name


def largest_gap(a: np.ndarray, b: np.ndarray) -> float:
    """The two-sample Kolmogorov-Smirnov statistic; 1.95 sqrt(2/n) is its 0.1% quantile."""
    values = np.sort(np.concatenate([a, b]))
    return float(
        np.abs(
            np.searchsorted(np.sort(a), values, "right") / len(a)
            - np.searchsorted(np.sort(b), values, "right") / len(b)
        ).max()
    )


def test_colors_blur_and_flips_are_drawn_as_the_recipe_says() -> None:
    count = 20_000
    drawn = draw(VIEWS, count)
    share = 4 * np.sqrt(0.25 / count)  # four standard deviations of a share
    for chosen, p in ((drawn.jitter, 0.8), (drawn.grayscale, 0.2), (drawn.blur, 0.5), (drawn.flip, 0.5)):
        assert abs(chosen.mean() - p) < share
    uniform = np.linspace(0, 1, count)
    gap = 1.95 * np.sqrt(1 / count)
    for column_, (low, high) in zip(drawn.jitter_amount.T, [(0.6, 1.4)] * 3 + [(-0.1, 0.1)], strict=True):
        assert largest_gap((column_ - low) / (high - low), uniform) < gap
    assert largest_gap((drawn.sigma - 0.1) / 1.9, uniform) < gap
    _, orders = np.unique(drawn.jitter_order, axis=0, return_counts=True)
    assert len(orders) == 24
    assert np.abs(orders / count - 1 / 24).max() < 4 * np.sqrt(1 / 24 / count)
    pairs = np.corrcoef(
        np.column_stack([drawn.jitter, drawn.grayscale, drawn.blur, drawn.flip, drawn.sigma]).T.astype(float)
    )
    assert np.abs(pairs - np.eye(5)).max() < 5 / np.sqrt(count)


@pytest.mark.parametrize("grain", [0, 25])
def test_what_the_downsized_copy_changes_is_bounded(grain: int) -> None:
    """A crop of a copy whose short side is packed_short_side differs little from the crop of the original."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((2000, 1500), Image.Resampling.BICUBIC))
    original = np.clip(smooth + rng.normal(0, grain, smooth.shape), 0, 255).astype(np.uint8)
    side = packed_short_side(VIEWS)
    assert side == 501  # ceil(224 / sqrt(.2)): the smallest crop is not enlarged
    scale = 1500 / side
    copy = np.asarray(Image.fromarray(original).resize((round(2000 / scale), side), Image.Resampling.BICUBIC))
    box = np.array([[300, 500, 670, 670]])  # a fifth of the area
    small_box = np.rint(box / scale).astype(int)
    change = resize_each(cut([original], box), 224) - resize_each(cut([copy], small_box), 224)
    assert float(change.abs().mean()) < 0.01  # of 1.0; the box is rounded to whole pixels


def test_only_narrow_crops_of_the_copy_are_enlarged_and_those_little() -> None:
    side = packed_short_side(VIEWS)
    crops = draw(VIEWS, 20_000, height=side, width=side).boxes[:, 2:]
    assert np.sqrt(crops.prod(axis=1)).min() > 0.995 * 224
    assert 224 / crops.min() < 1.16


@given(st.integers(0, 1000))
def test_pixels_come_back_from_a_view_that_only_crops(seed: int) -> None:
    images = [photo(24, 24, seed), photo(24, 24, seed + 1)]
    whole = np.tile([[0, 0, 24, 24]], (2, 1))
    nothing, no_amount = np.zeros(2, dtype=bool), np.zeros((2, 4))
    drawn = ViewParameters(whole, nothing, nothing, no_amount.astype(int), no_amount, nothing, nothing, np.ones(2))
    view = make_view(images, drawn, VIEWS.model_copy(update={"crop": 24}), CPU)
    np.testing.assert_array_equal(as_pixels(view, VIEWS).permute(0, 2, 3, 1).numpy(), np.stack(images))
