"""Colors: every mode becomes 8-bit sRGB over white."""

import struct

import numpy as np
from PIL import Image, ImageCms

from mocosearch.images.decode import decode
from tests.images.pictures import RED, SRGB, file_of, is_near, png_of


def test_half_transparent_pixels_are_mixed_with_white() -> None:
    assert decode(file_of(Image.new("RGBA", (4, 4), (0, 0, 0, 128)), "PNG")).image.getpixel((1, 1)) == (127,) * 3


def test_values_beyond_16_bits_and_not_numbers_are_scaled_into_range() -> None:
    values = np.array([[-5.0, np.nan], [np.inf, 1e6]], dtype=np.float32)
    assert np.asarray(decode(file_of(Image.fromarray(values), "TIFF")).image)[..., 0].tolist() == [
        [0, 0],
        [0, 255],
    ]


def test_a_wide_gray_picture_of_many_pixels_is_scaled_as_a_whole() -> None:
    values = np.full((3000, 2000), 1000, np.uint16)
    values[-1, -1] = 65535  # says that the others are not of 12 bits
    gray = np.asarray(decode(file_of(Image.fromarray(values), "TIFF")).image)[..., 0]
    assert (gray.flat[:-1] == round(1000 * 255 / 65535)).all()
    assert gray[-1, -1] == 255


def test_16_bit_color_keeps_its_colors() -> None:
    row = b"\0" + struct.pack(">3H", 0xDC00, 0x2800, 0x1E00) * 4
    assert decode(png_of(4, 4, 16, 2, row * 4)).image.getpixel((2, 2)) == (0xDC, 0x28, 0x1E)


def test_a_color_profile_is_converted_to_srgb_and_a_broken_one_is_no_reason_to_skip() -> None:
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
    swapped = bytearray(SRGB.tobytes())
    red, blue = swapped.index(b"rXYZ"), swapped.index(b"bXYZ")
    swapped[red : red + 4], swapped[blue : blue + 4] = b"bXYZ", b"rXYZ"
    plain = Image.new("RGB", (8, 8), RED)
    assert is_near(decode(file_of(plain, "PNG", icc_profile=bytes(swapped))).image, (4, 4), RED[::-1])
    for useless in (SRGB.tobytes(), lab.tobytes(), b"no profile at all", bytes(swapped[:200])):
        assert is_near(decode(file_of(plain, "PNG", icc_profile=useless)).image, (4, 4), RED, 1)
