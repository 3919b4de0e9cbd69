"""Decoding: every kind of file gives an upright RGB picture, or one reason why not."""

import base64
import contextlib
import io
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import AvifImagePlugin, Image, ImageCms

from mocosearch.images import decode as decode_module
from mocosearch.images.decode import Undecodable, decode, decoder_capabilities, read_file

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

RED, BLUE = (220, 40, 30), (20, 60, 200)
NOBODY = 65534
# Made with pillow-heif 1.8 from `picture()`: nothing installed here can write HEIC. The second carries a
# rotation (irot), as phones write it.
HEIC = base64.b64decode(
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAX1tZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAA"
    "ACJpbG9jAAAAAERAAAEAAQAAAAABoQABAAAAAAAAADAAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRt"
    "AAAAAAABAAAA/WlwcnAAAADdaXBjbwAAAHZodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMA"
    "AAMAHroCQGEAAQAqQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbq5Ka5uAhoMCAAAAMDIAAAAwAhYgABAAZEAcFzwIkAAAATY29scm5j"
    "bHgAAQANAAaAAAAAFGlzcGUAAAAAAAAAQAAAAEAAAAAoY2xhcAAAAEAAAAABAAAAIAAAAAEAAAAAAAAAAv///+AAAAACAAAAEHBp"
    "eGkAAAAAAwgICAAAABhpcG1hAAAAAAAAAAEAAQWBAgMFhAAAADhtZGF0AAAALCgBrxmA94SFN//VjP975f46Cyt/+G1171rf6414"
    "KbL/Xggdbzv6Cb5kQTET"
)
HEIC_TURNED = base64.b64decode(
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAchtZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAA"
    "ADRpbG9jAAAAAERAAAIAAQAAAAAB7AABAAAAAAAAADAAAgAAAAACHAABAAAAAAAAACQAAAA4aWluZgAAAAAAAgAAABVpbmZlAgAA"
    "AAABAABodmMxAAAAABVpbmZlAgAAAQACAABFeGlmAAAAAA5waXRtAAAAAAABAAABB2lwcnAAAADmaXBjbwAAAHZodmNDAQNwAAAA"
    "kAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQAqQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbq"
    "5Ka5uAhoMCAAAAMDIAAAAwAhYgABAAZEAcFzwIkAAAATY29scm5jbHgAAQANAAaAAAAAFGlzcGUAAAAAAAAAQAAAAEAAAAAoY2xh"
    "cAAAAEAAAAABAAAAIAAAAAEAAAAAAAAAAv///+AAAAACAAAAEHBpeGkAAAAAAwgICAAAAAlpcm90AwAAABlpcG1hAAAAAAAAAAEA"
    "AQaBAgMFhIYAAAAaaXJlZgAAAAAAAAAOY2RzYwACAAEAAQAAAFxtZGF0AAAALCgBrxmA94SFN//VjP975f46Cyt/+G1171rf6414"
    "KbL/Xggdbzv6Cb5kQTETAAAABkV4aWYAAE1NACoAAAAIAAEBEgADAAAAAQAGAAAAAAAA"
)


def picture(width: int = 64, height: int = 32) -> Image.Image:
    """Blue, the top left quarter red: every orientation of it looks different."""
    image = Image.new("RGB", (width, height), BLUE)
    image.paste(RED, (0, 0, width // 2, height // 2))
    return image


SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))


def file_of(image: Image.Image, format_: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_, **options)
    return buffer.getvalue()


def looks_like_the_picture(image: Image.Image, tolerance: int = 40) -> bool:
    width, height = image.size
    points = {(1, 1): RED, (3, 1): BLUE, (1, 3): BLUE, (3, 3): BLUE}
    return image.mode == "RGB" and all(
        np.abs(np.subtract(image.getpixel((x * width // 4, y * height // 4)), color)).max() <= tolerance  # type: ignore[arg-type]
        for (x, y), color in points.items()
    )


def failure(source: Path | bytes, **options: Any) -> Undecodable:
    with pytest.raises(Undecodable) as caught:
        decode(source, **options)
    return caught.value


VALID: dict[str, bytes] = {
    "jpeg": file_of(picture(), "JPEG", quality=95),
    "jpeg progressive": file_of(picture(), "JPEG", quality=95, progressive=True),
    "jpeg cmyk": file_of(picture().convert("CMYK"), "JPEG", quality=95),
    "jpeg with broken exif": file_of(picture(), "JPEG", quality=95, exif=b"Exif\0\0MM\0*\0\0\xff\xff junk"),
    "png": file_of(picture(), "PNG"),
    "png with profile": file_of(picture(), "PNG", icc_profile=SRGB.tobytes()),
    "png palette": file_of(picture().quantize(8), "PNG"),
    "png alpha": file_of(picture().convert("RGBA"), "PNG"),
    "webp": file_of(picture(), "WEBP", quality=95),
    "webp lossless": file_of(picture(), "WEBP", lossless=True),
    "tiff": file_of(picture(), "TIFF"),
    "tiff lzw": file_of(picture(), "TIFF", compression="tiff_lzw"),
    "tiff deflate": file_of(picture(), "TIFF", compression="tiff_adobe_deflate"),
    "tiff jpeg": file_of(picture(), "TIFF", compression="jpeg"),
    "tiff cmyk": file_of(picture().convert("CMYK"), "TIFF"),
    "gif": file_of(picture(), "GIF"),
    "bmp": file_of(picture(), "BMP"),
    "avif": file_of(picture(), "AVIF", quality=90),
    "jpeg 2000": file_of(picture(), "JPEG2000"),
    "ppm": file_of(picture(), "PPM"),
    "heic": HEIC,
}


@pytest.mark.parametrize("kind", VALID)
def test_every_format_gives_the_picture_by_content_whatever_the_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "wrong.txt"
    path.write_bytes(VALID[kind])
    decoded = decode(path)
    assert looks_like_the_picture(decoded.image)
    assert (decoded.width, decoded.height) == decoded.image.size == (64, 32)


def test_ycck_jpeg_is_shown_in_its_colors() -> None:
    """An Adobe marker that says YCCK makes libjpeg convert to CMYK; white stays white, not black."""
    white = file_of(Image.new("CMYK", (32, 32), (0, 0, 0, 0)), "JPEG", quality=95)
    at = white.index(b"Adobe")
    ycck = white[: at + 11] + b"\x02" + white[at + 12 :]  # the transform flag of the marker
    pixel = decode(ycck).image.getpixel((16, 16))
    assert ycck != white
    assert Image.open(io.BytesIO(ycck)).mode == "CMYK"
    assert isinstance(pixel, tuple)
    assert pixel != decode(white).image.getpixel((16, 16))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("short_side", [None, 16])
def test_every_orientation_comes_upright_in_every_format(
    format_: str, orientation: int, short_side: int | None
) -> None:
    back: dict[int, Image.Transpose] = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = picture().transpose(back[orientation]) if orientation > 1 else picture()
    exif = Image.Exif()
    exif[0x0112] = orientation
    decoded = decode(file_of(stored, format_, exif=exif), short_side=short_side)
    assert (decoded.width, decoded.height) == (64, 32)
    assert decoded.image.size == ((64, 32) if short_side is None else (32, 16))
    assert looks_like_the_picture(decoded.image, tolerance=60)


def test_a_phone_heic_is_turned_once_by_its_rotation_and_not_again_by_its_exif() -> None:
    decoded = decode(HEIC_TURNED)
    assert (decoded.width, decoded.height) == decoded.image.size == (32, 64)
    assert looks_like_the_picture(decoded.image.transpose(Image.Transpose.ROTATE_90))


@pytest.mark.parametrize("value", [0, 9, 200])
def test_an_impossible_orientation_counts_as_none(value: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = value
    assert looks_like_the_picture(decode(file_of(picture(), "JPEG", exif=exif)).image)


GRAY_MODES: dict[str, Callable[[], bytes]] = {
    "L": lambda: file_of(Image.new("L", (9, 5), 128), "PNG"),
    "1": lambda: file_of(Image.new("1", (9, 5), 1), "PNG"),
    "16-bit": lambda: file_of(Image.fromarray(np.full((5, 9), 128 * 257, np.uint16)), "PNG"),
    "16-bit tiff": lambda: file_of(Image.fromarray(np.full((5, 9), 128 * 257, np.uint16)), "TIFF"),
    "12 bits in 16": lambda: file_of(Image.fromarray(np.full((5, 9), 128 * 16, np.uint16)), "TIFF"),
    "32-bit": lambda: file_of(Image.fromarray(np.full((5, 9), 128, np.int32)), "TIFF"),
    "float to one": lambda: file_of(Image.fromarray(np.full((5, 9), 0.5, np.float32)), "TIFF"),
    "gray with alpha": lambda: file_of(Image.new("LA", (9, 5), (128, 255)), "PNG"),
}


@pytest.mark.parametrize("mode", GRAY_MODES)
def test_gray_of_any_depth_becomes_its_8_bit_gray(mode: str) -> None:
    image = decode(GRAY_MODES[mode]()).image
    expected = 255 if mode == "1" else 128
    assert image.mode == "RGB"
    assert np.abs(np.asarray(image, dtype=int) - expected).max() <= 1


def test_values_beyond_16_bits_and_not_numbers_are_scaled_into_range() -> None:
    values = np.array([[-5.0, np.nan], [np.inf, 1e6]], dtype=np.float32)
    assert np.asarray(decode(file_of(Image.fromarray(values), "TIFF")).image)[..., 0].tolist() == [
        [0, 0],
        [0, 255],
    ]


def test_16_bit_color_keeps_its_colors() -> None:
    row = b"\0" + struct.pack(">3H", 0xDC00, 0x2800, 0x1E00) * 4
    header = struct.pack(">2I5B", 4, 4, 16, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(row * 4)), (b"IEND", b""))
    )
    assert decode(png).image.getpixel((2, 2)) == (0xDC, 0x28, 0x1E)


def transparent(mode: str) -> bytes:
    """Black on transparent black but for an opaque red half."""
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    image.paste((*RED, 255), (0, 0, 4, 8))
    if mode == "RGBA":
        return file_of(image, "PNG")
    if mode == "webp":
        return file_of(image, "WEBP", lossless=True)
    if mode == "palette":
        return file_of(image.quantize(4), "PNG")
    if mode == "gif":
        return file_of(image, "GIF")
    return file_of(image.convert("RGB"), "PNG", transparency=(0, 0, 0))


@pytest.mark.parametrize("mode", ["RGBA", "webp", "palette", "gif", "color key"])
@pytest.mark.parametrize("short_side", [None, 4])
def test_transparent_pixels_are_white(mode: str, short_side: int | None) -> None:
    image = decode(transparent(mode), short_side=short_side).image
    width, height = image.size
    assert np.abs(np.subtract(image.getpixel((width - 1, height // 2)), (255, 255, 255))).max() <= 12  # type: ignore[arg-type]
    assert np.abs(np.subtract(image.getpixel((0, height // 2)), RED)).max() <= 12  # type: ignore[arg-type]


def test_half_transparent_pixels_are_mixed_with_white() -> None:
    assert decode(file_of(Image.new("RGBA", (4, 4), (0, 0, 0, 128)), "PNG")).image.getpixel((1, 1)) == (127,) * 3


def test_a_color_profile_is_converted_to_srgb_and_a_broken_one_is_no_reason_to_skip() -> None:
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
    swapped = bytearray(SRGB.tobytes())
    red, blue = swapped.index(b"rXYZ"), swapped.index(b"bXYZ")
    swapped[red : red + 4], swapped[blue : blue + 4] = b"bXYZ", b"rXYZ"
    plain = Image.new("RGB", (8, 8), RED)
    converted = decode(file_of(plain, "PNG", icc_profile=bytes(swapped))).image.getpixel((4, 4))
    assert np.abs(np.subtract(converted, RED[::-1])).max() <= 3  # type: ignore[arg-type]
    for useless in (SRGB.tobytes(), lab.tobytes(), b"no profile at all", bytes(swapped[:200])):
        pixel = decode(file_of(plain, "PNG", icc_profile=useless)).image.getpixel((4, 4))
        assert np.abs(np.subtract(pixel, RED)).max() <= 1  # type: ignore[arg-type]


@pytest.mark.parametrize("format_", ["GIF", "WEBP", "PNG", "TIFF", "AVIF"])
def test_of_an_animation_the_first_frame_is_shown(format_: str) -> None:
    frames = [Image.new("RGB", (64, 32), "black"), Image.new("RGB", (64, 32), "white")]
    data = file_of(picture(), format_, save_all=True, append_images=frames)
    assert looks_like_the_picture(decode(data).image)


@pytest.mark.parametrize("kind", VALID)
def test_a_larger_picture_is_reduced_to_the_short_side_and_a_smaller_one_left_alone(kind: str) -> None:
    assert decode(VALID[kind], short_side=16).image.size == (32, 16)
    assert decode(VALID[kind], short_side=100).image.size == (64, 32)


def test_reducing_averages_and_does_not_drop_pixels() -> None:
    stripes = Image.fromarray(np.tile(np.array([[0, 255]], np.uint8), (256, 128)))
    for data in (
        file_of(stripes, "PNG"),
        file_of(stripes, "JPEG", quality=100),
        file_of(stripes.convert("1"), "PNG"),
    ):
        reduced = np.asarray(decode(data, short_side=32).image, dtype=int)[2:-2, 2:-2]
        assert np.abs(reduced - 127).max() <= 8


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1), (3, 2000)])
def test_extreme_shapes_pass(size: tuple[int, int]) -> None:
    for format_ in ("PNG", "JPEG", "WEBP"):
        decoded = decode(file_of(Image.new("RGB", size, RED), format_), short_side=2)
        assert (decoded.width, decoded.height) == size
        assert min(decoded.image.size) == min(2, *size)


def test_the_moment_is_read_from_the_camera_first_and_nonsense_is_none() -> None:
    def taken_at(format_: str, original: object, changed: object) -> str | None:
        exif = Image.Exif()
        exif[0x0132] = changed
        exif.get_ifd(0x8769)[0x9003] = original
        return decode(file_of(picture(), format_, exif=exif)).taken_at

    for format_ in ("JPEG", "PNG", "WEBP", "AVIF"):
        assert taken_at(format_, "2019:07:14 16:03:09", "2024:01:01 00:00:00") == "2019-07-14T16:03:09"
    assert taken_at("TIFF", None, "2024:01:01 00:00:00") == "2024-01-01T00:00:00"
    assert taken_at("JPEG", "0000:00:00 00:00:00", "2024:01:01 00:00:00") == "2024-01-01T00:00:00"
    assert taken_at("JPEG", "    :  :     :  :  ", "yesterday") is None
    assert decode(VALID["png"]).taken_at is None


def noise(format_: str, **options: Any) -> bytes:
    """A file of some ten kilobytes whose every byte matters."""
    values = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    return file_of(Image.fromarray(values), format_, **options)


NOISE: dict[str, bytes] = {
    "jpeg": noise("JPEG"),
    "jpeg progressive": noise("JPEG", progressive=True),
    "png": noise("PNG"),
    "webp": noise("WEBP"),
    "webp lossless": noise("WEBP", lossless=True),
    "gif": noise("GIF"),
    "bmp": noise("BMP"),
    "ppm": noise("PPM"),
    "tiff": noise("TIFF"),
    "tiff lzw": noise("TIFF", compression="tiff_lzw"),
    "avif": noise("AVIF"),
    "jpeg 2000": noise("JPEG2000"),
}


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("short_side", [None, 16])
def test_a_cut_off_file_is_skipped_and_never_shown_half_gray(kind: str, short_side: int | None) -> None:
    data = NOISE[kind]
    for tenths in range(1, 10):
        reason = failure(data[: len(data) * tenths // 10], short_side=short_side).reason
        assert reason == "truncated" or kind in ("gif", "tiff lzw", "avif", "jpeg 2000")


@pytest.mark.parametrize("kind", NOISE)
def test_a_file_that_lacks_its_last_bytes_is_whole_or_skipped(kind: str) -> None:
    whole = decode(NOISE[kind]).image.tobytes()
    for missing in range(1, 30):
        with contextlib.suppress(Undecodable):
            assert decode(NOISE[kind][:-missing]).image.tobytes() == whole


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"Dear diary, this is a text file called .jpg", "not-an-image"),
        (b"\xff\xd8\xff\xe0 no more", "truncated"),
        (VALID["png"].replace(b"IDAT", b"IDOT"), "damaged"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not-an-image"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "not-an-image"),
        (b"%PDF-1.7", "not-an-image"),
    ],
)
def test_what_is_no_picture_says_so(data: bytes, reason: str) -> None:
    assert failure(data).reason == reason


def bomb(width: int, height: int) -> bytes:
    """A small PNG that claims to be huge."""
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    idat = b"IDAT" + zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk))
        + struct.pack(">I", len(idat) - 4) + idat + struct.pack(">I", zlib.crc32(idat))
    )  # fmt: skip


def test_a_bomb_is_refused_before_it_is_unpacked_and_200_megapixels_are_not() -> None:
    assert failure(bomb(100_000, 100_000)).reason == "too-large"
    assert failure(bomb(15_812, 15_812)).reason == "too-large"
    assert failure(bomb(16_320, 12_240)).reason == "truncated"  # the size passes; these bytes run out


def test_pillow_writes_no_warning_about_bombs_and_damaged_metadata(tmp_path: Path) -> None:
    for name, data in {"a": bomb(16_320, 12_240), "b": bomb(16_320, 30_000), **VALID}.items():
        (tmp_path / name).write_bytes(data)
    code = "import sys, pathlib; from mocosearch.images.decode import *\n"
    code += "for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
    code += "  try: decode(path)\n  except Undecodable as error: print(error.reason)"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["truncated", "too-large"], "")


def test_a_jpeg_is_measured_after_scaling_unless_the_decoder_must_hold_it_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decode_module, "MAX_PIXELS", 32 * 64 // 4)
    assert decode(VALID["jpeg"], short_side=8).image.size == (16, 8)
    assert failure(VALID["jpeg progressive"], short_side=8).reason == "too-large"
    assert failure(VALID["jpeg"]).reason == "too-large"
    assert failure(VALID["png"], short_side=8).reason == "too-large"


def with_chunk(png: bytes, kind: bytes, body: bytes) -> bytes:
    at = png.index(b"IDAT") - 4
    chunk = struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return png[:at] + chunk + png[at:]


@pytest.mark.parametrize(
    ("kind", "head"), [(b"zTXt", b"note\0\0"), (b"iTXt", b"note\0\1\0\0\0"), (b"iCCP", b"profile\0\0")]
)
def test_a_png_with_a_text_bomb_still_gives_its_picture(kind: bytes, head: bytes) -> None:
    data = with_chunk(VALID["png"], kind, head + zlib.compress(bytes(50_000_000)))
    with pytest.raises(ValueError, match="too large"):
        Image.open(io.BytesIO(data))
    assert looks_like_the_picture(decode(data).image)


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    assert failure(tmp_path / "gone.jpg").reason == "io"
    assert failure(tmp_path).reason == "not-an-image"
    assert failure(tmp_path / "pipe.jpg").reason == "not-an-image"
    with open(tmp_path / "vast.jpg", "wb") as file:  # noqa: PTH123
        file.truncate(decode_module.MAX_BYTES + 1)
    assert failure(tmp_path / "vast.jpg").reason == "too-large"


def test_a_file_one_may_not_read_is_a_permission_matter() -> None:
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "private.jpg"
        path.write_bytes(VALID["jpeg"])
        path.chmod(0)
        if user == 0:
            os.seteuid(NOBODY)
        try:
            reason = failure(path).reason
        finally:
            os.seteuid(user)
    assert reason == "permission"
    assert reason in decode_module.ALWAYS_RETRY


def test_names_that_are_not_utf8_are_opened(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff\n.png")
    path.write_bytes(VALID["png"])
    assert looks_like_the_picture(decode(path).image)
    assert read_file(path) == VALID["png"]


def test_a_missing_codec_is_named_so_that_the_file_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = decoder_capabilities()
    assert all(name in before for name in ("pillow", "avif", "webp", "pi_heif", "250000000"))
    monkeypatch.setattr(decode_module, "pi_heif", None)
    monkeypatch.setattr(decode_module, "_FORMATS", tuple(f for f in decode_module._FORMATS if f != "HEIF"))
    assert failure(VALID["heic"]).reason == "missing-codec"
    assert decoder_capabilities() != before


def test_a_codec_that_pillow_was_built_without_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _, accept = Image.OPEN["AVIF"]
    assert accept is not None
    monkeypatch.setattr(AvifImagePlugin, "SUPPORTED", False)
    assert isinstance(accept(VALID["avif"][:16]), str)
    assert failure(VALID["avif"]).reason == "missing-codec"


def test_a_failure_reads_as_one_line_and_survives_pickling() -> None:
    error = failure(b"\x89PNG\r\n\x1a\n\x1b[31m\n\nevil")
    assert "\n" not in str(error)
    assert str(error).isprintable()
    again = pickle.loads(pickle.dumps(error))
    assert (again.reason, again.detail) == (error.reason, error.detail)


def test_a_failure_holds_no_decoded_pixels_in_its_traceback() -> None:
    error = failure(VALID["png"][:-30])
    assert error.__context__ is None
    assert error.__cause__ is None


def test_decoding_from_many_threads_gives_what_one_thread_gives() -> None:
    alone = {kind: decode(data, short_side=16).image.tobytes() for kind, data in VALID.items()}
    wrong: list[str] = []

    def work() -> None:
        for kind, data in VALID.items():
            if decode(data, short_side=16).image.tobytes() != alone[kind]:
                wrong.append(kind)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("at", range(4))
def test_an_item_type_that_would_crash_the_heic_library_is_refused(at: int) -> None:
    data = bytearray(HEIC_TURNED)
    data[data.index(b"Exif") + at] = 0xFF
    assert failure(bytes(data)).reason == "damaged"


FLIPPED = {**VALID, "heic turned": HEIC_TURNED}


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([data[:24] for data in VALID.values()] + [b""]))
def test_arbitrary_bytes_raise_nothing_else(data: bytes, prefix: bytes) -> None:
    failure(prefix + data)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(FLIPPED)),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=4),
    st.floats(0, 1),
    st.sampled_from([None, 8]),
)
@example("jpeg", [], 1.0, 8)
def test_damaged_files_give_a_picture_or_a_reason_and_raise_nothing_else(
    kind: str, flips: list[tuple[float, int]], kept: float, short_side: int | None
) -> None:
    data = bytearray(FLIPPED[kind])
    for place, bits in flips:
        data[int(place * len(data))] ^= bits
    with contextlib.suppress(Undecodable):
        decoded = decode(bytes(data[: int(kept * len(data))]), short_side=short_side)
        assert decoded.image.mode == "RGB"
        assert short_side is None or min(decoded.image.size) <= short_side
