import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch_app.service.looks import WALL_SEEDS, Look, OfPhoto, OfUpload, Wall, parse

LOOKS = st.one_of(
    st.integers(0, WALL_SEEDS - 1).map(Wall),
    st.integers(0, 10**18 - 1).map(OfPhoto),
    st.binary(min_size=16, max_size=16).map(bytes.hex).map(OfUpload),
)


@given(LOOKS)
def test_every_look_is_read_back_from_its_text(look: Look) -> None:
    assert parse(str(look)) == look


@given(st.text())
def test_any_text_gives_nothing_or_the_very_look_it_spells(text: str) -> None:
    look = parse(text)
    assert look is None or str(look) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "wall", "wall-", "wall-01", "wall-1000000", "photo--1", "photo-1.5", "photo-1e3", "Photo-1"),
        *("photo-1\n", " photo-1", "photo-9999999999999999999", "photo-1;drop table photo", "photo-١"),
        *("upload-", "upload-../../etc/passwd", "upload-" + "A" * 32, "upload-" + "a" * 31),
    ],
)
def test_a_forged_look_is_nothing(text: str) -> None:
    assert parse(text) is None
