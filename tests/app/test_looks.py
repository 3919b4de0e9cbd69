import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch_app.service.looks import (
    MOST_EXAMPLES,
    WALL_SEEDS,
    Duplicates,
    Example,
    Filters,
    LibraryFacts,
    Look,
    Search,
    Wall,
    parse,
)

BOXES = st.tuples(st.integers(0, 999), st.integers(0, 999)).flatmap(
    lambda corner: st.tuples(
        st.just(corner[0]), st.just(corner[1]), st.integers(1, 1000 - corner[0]), st.integers(1, 1000 - corner[1])
    )
)
EXAMPLES = st.builds(
    Example,
    st.one_of(st.integers(0, 10**18 - 1), st.binary(min_size=16, max_size=16).map(bytes.hex)),
    st.none() | BOXES,
)
DATES = st.sampled_from(["2024", "2024-02", "2024-02-29"])
FILTERS = st.builds(
    Filters,
    st.none() | st.text(min_size=1).filter(lambda text: text.isprintable()),
    st.none() | DATES,
    st.none() | DATES,
    st.none() | st.integers(-10_000, 10_000).map(lambda number: number / 10_000),
)
LOOKS = st.one_of(
    st.builds(Wall, st.integers(0, WALL_SEEDS - 1), FILTERS),
    st.builds(
        Search,
        st.lists(EXAMPLES, min_size=1, max_size=MOST_EXAMPLES).map(tuple),
        st.lists(EXAMPLES, max_size=MOST_EXAMPLES).map(tuple),
        FILTERS,
    ),
    st.builds(Duplicates, st.integers(1, 999_999)),
    st.just(LibraryFacts()),
)


@given(LOOKS)
def test_every_look_is_read_back_from_its_text(look: Look) -> None:
    assert parse(str(look)) == look


@given(st.lists(st.sampled_from([*"0123456789abcdefu@,.-&=%+ \n'", "like=", "unlike=", "wall=", "folder=", "min="])))
def test_any_text_gives_nothing_or_a_look_that_is_read_back(parts: list[str]) -> None:
    look = parse("".join(parts))
    assert look is None or parse(str(look)) == look


@pytest.mark.parametrize(
    "text",
    [
        *("", "wall", "wall=", "wall=01", "wall=1000000", "wall=1&wall=2", "wall=1&like=2", "wall=1&surprise=1"),
        *("like=-1", "like=1.5", "like=1e3", "Like=1", "like=1\n", " like=1", "like=9999999999999999999", "like=١"),
        *("like=1;drop table photo", "unlike=1", "like=u", "like=u../../etc/passwd", "like=u" + "A" * 32),
        *("like=u" + "a" * 31, "like=1@0,0,0,10", "like=1@0,0,1001,10", "like=1@600,0,500,10", "like=1@1,2,3"),
        *("&".join(["like=1"] * 9), "like=1&min=nan", "like=1&min=2.x", "like=1&from=yesterday", "like=1&to=2024-13"),
        *("like=1&folder=a&folder=b", "like=%ff", "duplicates=0", "duplicates=x", "library=1", "library&wall=1"),
    ],
)
def test_a_forged_look_is_nothing(text: str) -> None:
    assert parse(text) is None
