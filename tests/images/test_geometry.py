"""What a network sees of a picture."""

import pytest
from PIL import Image

from mocosearch.images.geometry import Geometry


@pytest.mark.parametrize(("resize", "crop"), [(224, 224), (98, 98), (112, 98)])
def test_a_picture_of_any_size_can_be_cut(resize: int, crop: int) -> None:
    for side in range(1, resize + 1):  # where rounding put the corner outside the picture
        for size in ((side, side), (side, 2 * side + 1)):
            assert Geometry(resize, crop).cut(Image.new("RGB", size)).shape == (crop, crop, 3)
