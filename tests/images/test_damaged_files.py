"""Damaged, cut off and malicious files give a reason, and never a picture that is not the file's."""

import contextlib
import io
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from mocosearch.images.decode import Undecodable, decode
from tests.images.pictures import (
    HEIC_TURNED,
    VALID,
    bomb,
    failure,
    file_of,
    looks_like_the_picture,
    noise,
    with_chunk,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

NOISE: dict[str, bytes] = {
    "jpeg": file_of(noise(), "JPEG"),
    "jpeg progressive": file_of(noise(), "JPEG", progressive=True),
    "png": file_of(noise(), "PNG"),
    "webp": file_of(noise(), "WEBP"),
    "webp lossless": file_of(noise(), "WEBP", lossless=True),
    "gif": file_of(noise(), "GIF"),
    "bmp": file_of(noise(), "BMP"),
    "ppm": file_of(noise(), "PPM"),
    "tiff": file_of(noise(), "TIFF"),
    "tiff lzw": file_of(noise(), "TIFF", compression="tiff_lzw"),
    "avif": file_of(noise(), "AVIF"),
    "jpeg 2000": file_of(noise(), "JPEG2000"),
}
FLIPPED = {**VALID, "heic turned": HEIC_TURNED}


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


@pytest.mark.parametrize("short_side", [None, 16])
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("RGB", {}),
        ("RGB", {"subsampling": 0}),
        ("RGB", {"restart_marker_rows": 1}),
        ("RGB", {"restart_marker_blocks": 3}),
        ("CMYK", {}),
        ("L", {}),
    ],
)
def test_a_jpeg_that_was_cut_and_closed_is_skipped_too(
    mode: str, options: dict[str, int], short_side: int | None
) -> None:
    data = file_of(noise().convert(mode), "JPEG", **options)
    header = data.rindex(b"\xff\xda") + 20
    for length in range(header, len(data) * 9 // 10, 41):
        assert failure(data[:length] + b"\xff\xd9", short_side=short_side).reason == "truncated"


def test_a_jpeg_that_was_cut_and_closed_between_two_restart_markers_is_skipped_too() -> None:
    data = file_of(noise(), "JPEG", restart_marker_rows=1)
    restarts = [found.start() for found in re.finditer(rb"\xff[\xd0-\xd7]", data)]
    assert len(restarts) == 3
    for at in restarts:
        for length in (at, at + 2):
            assert failure(data[:length] + b"\xff\xd9").reason == "truncated"


@pytest.mark.parametrize("behind", [b"", b"a film \xff\xd8\xff\xd9 and more"])
@pytest.mark.parametrize("short_side", [None, 16])
@pytest.mark.parametrize(
    ("mode", "gray"), [("RGB", (128, 128, 128)), ("L", 128), ("CMYK", (127, 127, 127, 127)), ("CMYK", (128,) * 4)]
)
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}])
def test_a_whole_jpeg_that_ends_in_the_gray_of_missing_data_is_not_taken_for_a_cut_one(
    mode: str, gray: Any, options: dict[str, int], short_side: int | None, behind: bytes
) -> None:
    for size in ((80, 60), (401, 299), (7, 5)):
        image = noise(*size).convert(mode)
        image.paste(gray, (0, size[1] // 2, *size))
        assert decode(file_of(image, "JPEG", **options) + behind, short_side=short_side).width == size[0]


def test_a_bomb_is_refused_and_200_megapixels_are_not() -> None:
    assert failure(bomb(15_812, 15_812)).reason == "too-large"
    Image.new("L", (16_320, 12_240), 128).save(buffer := io.BytesIO(), "PNG", compress_level=1)
    decoded = decode(buffer.getvalue(), short_side=16)
    assert (decoded.width, decoded.height, decoded.image.size) == (16_320, 12_240, (21, 16))


def test_pillow_writes_no_warning_about_bombs_and_damaged_metadata(tmp_path: Path) -> None:
    for name, data in {"a": bomb(16_320, 12_240), "b": bomb(16_320, 30_000), **VALID}.items():
        (tmp_path / name).write_bytes(data)
    code = "import sys, pathlib; from mocosearch.images.decode import *\n"
    code += "for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
    code += "  try: decode(path)\n  except Undecodable as error: print(error.reason)"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["truncated", "too-large"], "")


@pytest.mark.parametrize(
    ("kind", "head"), [(b"zTXt", b"note\0\0"), (b"iTXt", b"note\0\1\0\0\0"), (b"iCCP", b"profile\0\0")]
)
def test_a_png_with_a_text_bomb_still_gives_its_picture(kind: bytes, head: bytes) -> None:
    data = with_chunk(VALID["png"], kind, head + zlib.compress(bytes(50_000_000)))
    with pytest.raises(ValueError, match="too large"):
        Image.open(io.BytesIO(data))
    assert looks_like_the_picture(decode(data).image)


@pytest.mark.parametrize("at", range(4))
def test_an_item_type_that_would_crash_the_heic_library_is_refused(at: int) -> None:
    data = bytearray(HEIC_TURNED)
    data[data.index(b"Exif") + at] = 0xFF
    assert failure(bytes(data)).reason == "damaged"


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
