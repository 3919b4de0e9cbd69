"""Copies are made as they say, and two pictures look the same only when they do."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

from mocosearch.duplicates.copies import (
    KINDS,
    TURNS,
    Thumbnails,
    copies_of,
    look_the_same,
    recompressed,
    thumbnails,
    turned_copy,
)
from mocosearch.duplicates.turned_photos import turned


def picture(seed: int, side: int = 96) -> Image.Image:
    """Soft patches, as unlike another seed's as two photos are."""
    patches = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize((side * 4 // 3, side), Image.Resampling.BICUBIC)


def seen(image: Image.Image, tmp_path_factory: pytest.TempPathFactory) -> Thumbnails:
    path = tmp_path_factory.mktemp("seen") / "picture.png"
    image.save(path)
    return thumbnails(path)


@pytest.mark.parametrize("turn", range(8))
def test_pixels_and_pictures_are_turned_alike(turn: int) -> None:
    image = Image.fromarray(np.arange(27, dtype=np.uint8).reshape(3, 3, 3))
    how, _ = TURNS[turn]
    expected = np.asarray(image if how is None else image.transpose(how))
    pixels = turned(torch.from_numpy(np.array(image)).permute(2, 0, 1), turn)
    assert np.array_equal(pixels.permute(1, 2, 0).numpy(), expected)


def test_all_eight_turns_are_different() -> None:
    pixels = torch.arange(9).reshape(1, 3, 3)
    assert len({tuple(turned(pixels, turn).flatten().tolist()) for turn in range(8)}) == 8


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_differs_from_the_picture_and_still_looks_like_it(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    image = picture(1)
    copy = copies_of(image, key=5)[kind]
    assert copy.mode == "RGB"
    assert copy.size != image.size or np.asarray(copy).tobytes() != np.asarray(image).tobytes()
    assert look_the_same(seen(image, tmp_path_factory), seen(copy, tmp_path_factory))


def test_a_crop_keeps_nine_tenths_of_each_side() -> None:
    assert copies_of(picture(1, side=90), key=5)["cropped"].size == (108, 81)


def test_copies_follow_from_their_key_alone() -> None:
    image = picture(1)
    one, same, other = (copies_of(image, key)["cropped"].tobytes() for key in (3, 3, 4))
    assert one == same
    assert one != other


@pytest.mark.parametrize("size", [(1, 1), (1, 3), (70_000, 1)])
def test_pictures_of_odd_sizes_have_copies_too(size: tuple[int, int]) -> None:
    image = Image.new("RGB", size)
    assert all(min(copy.size) >= 1 for copy in (*copies_of(image, 0).values(), turned_copy(image, 0)))


@pytest.mark.parametrize("turn", range(8))
def test_turned_and_recompressed_pictures_look_the_same(turn: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    how, _ = TURNS[turn]
    copy = recompressed(picture(2) if how is None else picture(2).transpose(how))
    assert look_the_same(seen(picture(2), tmp_path_factory), seen(copy, tmp_path_factory))


def test_turned_copies_lie_in_every_other_way() -> None:
    sizes = {turned_copy(picture(3), key).size for key in range(20)}
    assert sizes == {(128, 96), (96, 128)}


def test_different_pictures_look_different(tmp_path_factory: pytest.TempPathFactory) -> None:
    thumbnails = [seen(picture(seed), tmp_path_factory) for seed in range(5)]
    assert not any(look_the_same(one, other) for i, one in enumerate(thumbnails) for other in thumbnails[:i])


def test_two_flat_skies_look_the_same_and_two_colors_do_not(tmp_path_factory: pytest.TempPathFactory) -> None:
    noise = np.random.default_rng(0).normal(120, 2, (2, 64, 64, 3)).astype(np.uint8)
    skies = [seen(Image.fromarray(pixels).filter(ImageFilter.BoxBlur(1)), tmp_path_factory) for pixels in noise]
    assert look_the_same(*skies)
    assert not look_the_same(skies[0], seen(Image.new("RGB", (64, 64), (120, 150, 120)), tmp_path_factory))
