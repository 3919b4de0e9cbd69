"""Decoding: upright, reduced, with what the file says of the original, or one reason why not."""

import os
import pickle
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import AvifImagePlugin, Image

from mocosearch.images import decode as decode_module
from mocosearch.images.decode import decode, decoder_capabilities
from tests.images.pictures import (
    RED,
    VALID,
    failure,
    file_of,
    looks_like_the_picture,
    picture,
    with_orientation,
)

NOBODY = 65534


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("short_side", [None, 16])
def test_every_orientation_comes_upright_in_every_format(
    format_: str, orientation: int, short_side: int | None
) -> None:
    decoded = decode(with_orientation(picture(), orientation, format_), short_side=short_side)
    assert (decoded.width, decoded.height) == (64, 32)
    assert decoded.image.size == ((64, 32) if short_side is None else (32, 16))
    assert looks_like_the_picture(decoded.image, tolerance=60)


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


def test_a_jpeg_is_measured_after_scaling_unless_the_decoder_must_hold_it_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decode_module, "MAX_PIXELS", 32 * 64 // 4)
    assert decode(VALID["jpeg"], short_side=8).image.size == (16, 8)
    assert failure(VALID["jpeg progressive"], short_side=8).reason == "too-large"
    assert failure(VALID["jpeg"]).reason == "too-large"
    assert failure(VALID["png"], short_side=8).reason == "too-large"


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
