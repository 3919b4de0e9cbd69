"""Every odd file gives the picture it must give, or the reason, and takes nothing down, wherever it is decoded."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from mocosearch.images.decode import DecodedImage, Undecodable, decode
from mocosearch.images.decode_pool import DecodePool
from mocosearch.images.geometry import Geometry
from mocosearch.images.prepared import content_hash
from tests.images.odd_files import ODD_FILES, OddFile, Shown


def outcome_of(file: OddFile, short_side: int | None) -> Shown | str:
    """What came of it, the look checked."""
    try:
        decoded = decode(file.data, short_side=short_side)
    except Undecodable as error:
        return error.reason
    assert isinstance(file.outcome, Shown)
    assert decoded.image.mode == "RGB"
    assert file.outcome.look(decoded.image)
    return Shown((decoded.width, decoded.height), file.outcome.look)


@pytest.mark.parametrize("short_side", [None, 16])
@pytest.mark.parametrize("kind", ODD_FILES)
def test_an_odd_file_gives_its_picture_or_the_reason_why_not(kind: str, short_side: int | None) -> None:
    file = ODD_FILES[kind]
    outcome = outcome_of(file, short_side)
    assert outcome == file.outcome if isinstance(file.outcome, Shown) else outcome in file.outcome


def test_a_pool_goes_through_a_folder_of_odd_files_in_silence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def path_of(kind: str) -> Path:
        return tmp_path / os.fsdecode(ODD_FILES[kind].name)

    for kind, file in ODD_FILES.items():
        path_of(kind).write_bytes(file.data)
    assert len(list(tmp_path.iterdir())) == len(ODD_FILES)
    geometry = Geometry(resize=32, crop=32)
    with DecodePool() as pool:
        results = dict(pool.prepare(((kind, path_of(kind)) for kind in ODD_FILES), geometry, ahead=16))
    assert list(results) == list(ODD_FILES)
    for kind, file in ODD_FILES.items():
        result = results[kind]
        if isinstance(result, Undecodable):
            assert not isinstance(file.outcome, Shown)
            assert result.reason in file.outcome
        else:
            assert isinstance(file.outcome, Shown)
            assert (result.width, result.height) == file.outcome.size
            assert file.outcome.look(Image.fromarray(result.pixels))
            assert result.content_hash == content_hash(file.data)
    assert capfd.readouterr() == ("", "")


def test_a_pool_decodes_bytes_as_they_are_decoded_in_place() -> None:
    with DecodePool() as pool:
        for file in ODD_FILES.values():
            assert facts_or_reason(pool.decode, file.data) == facts_or_reason(decode, file.data)


def facts_or_reason(decode: Callable[..., DecodedImage], data: bytes) -> object:
    try:
        decoded = decode(data, short_side=16)
    except Undecodable as error:
        return error.reason
    return decoded.image.mode, decoded.image.tobytes(), decoded.width, decoded.height, decoded.taken_at
