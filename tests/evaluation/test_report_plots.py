"""Where the report draws what: inside its frame, in the right order, for any numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocosearch.evaluation.outcome import Curve
from mocosearch.evaluation.report import words
from mocosearch.evaluation.report.plots import BAR_WIDTH, Plot, bars, plot

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def curve(x: list[float], y: list[float], *, log_x: bool = False) -> Curve:
    return Curve("title", "across", "up", np.array(x, dtype=np.float64), np.array(y, dtype=np.float64), log_x)


def points(drawn: Plot, line: int = 0) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in drawn.lines[line].path.split())
    return [(float(x), float(y)) for x, y in pairs]


@given(values, st.booleans())
def test_every_point_and_tick_lies_inside_the_axes(y: list[float], log_x: bool) -> None:
    drawn = plot([("one", 0, curve([1.0 + number for number in range(len(y))], y, log_x=log_x))])
    assert drawn is not None
    for across, up in points(drawn):
        assert drawn.left - 0.1 <= across <= drawn.right + 0.1
        assert drawn.top - 0.1 <= up <= drawn.bottom + 0.1
    assert drawn.x_ticks
    assert drawn.y_ticks
    assert all(drawn.left - 0.1 <= tick.place <= drawn.right + 0.1 for tick in drawn.x_ticks)
    assert all(drawn.top - 0.1 <= tick.place <= drawn.bottom + 0.1 for tick in drawn.y_ticks)


def test_a_value_lies_where_the_ticks_say() -> None:
    drawn = plot([("one", 0, curve([0, 5, 10], [0, 0.5, 1]))])
    assert drawn is not None
    across = {tick.label: tick.place for tick in drawn.x_ticks}
    up = {tick.label: tick.place for tick in drawn.y_ticks}
    assert points(drawn) == [
        (across["0"], up["0"]),
        ((across["4"] + across["6"]) / 2, (up["0.4"] + up["0.6"]) / 2),
        (across["10"], up["1"]),
    ]


def test_a_logarithmic_axis_gives_factors_the_same_room_and_round_ticks() -> None:
    drawn = plot([("one", 0, curve([1, 10, 100], [0, 1, 2], log_x=True))])
    assert drawn is not None
    (a, _), (b, _), (c, _) = points(drawn)
    assert b - a == pytest.approx(c - b, abs=0.11)
    assert [tick.label for tick in drawn.x_ticks] == ["1", "2", "5", "10", "20", "50", "100"]
    wide = plot([("one", 0, curve([0.001, 10_000], [0, 1], log_x=True))])
    assert wide is not None
    assert [tick.label for tick in wide.x_ticks] == ["0.001", "0.01", "0.1", "1", "10", "100", "1,000", "10,000"]


def test_encoders_share_one_scale_and_keep_their_style() -> None:
    drawn = plot(
        [
            ("one", 0, curve([0, 1], [0, 1])),
            ("none", 1, curve([0, 1], [math.nan, math.nan])),
            ("two", 2, curve([0, 2], [0, 4])),
        ]
    )
    assert drawn is not None
    assert [(line.name, line.style) for line in drawn.lines] == [("one", 0), ("two", 2)]
    assert points(drawn, 0)[0] == points(drawn, 1)[0]
    assert points(drawn, 0)[1][1] > points(drawn, 1)[1][1]  # 1 lies below 4


def test_what_has_no_finite_point_is_not_drawn() -> None:
    assert plot([("one", 0, curve([1, 2], [math.nan, math.inf]))]) is None
    assert plot([("one", 0, curve([0, -1], [1, 2], log_x=True))]) is None


def test_figures_between_0_and_1_lie_on_one_scale_and_others_have_none() -> None:
    drawn = bars([(0.5, (0.25, 1.0)), (1.0, None)], 0.0)
    assert drawn is not None
    first, second = drawn
    assert first.interval is not None
    assert (first.value, first.chance, first.interval[1]) == (BAR_WIDTH / 2, first.start, first.end)
    assert first.interval[0] == pytest.approx((first.start + first.value) / 2)
    assert (second.value, second.interval, second.chance) == (second.end, None, second.start)
    assert bars([(0.5, None), (1.5, None)], None) is None
    assert bars([(0.5, (-0.1, 0.9))], None) is None
    assert bars([(math.nan, None)], None) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.6423, "0.642"),
        (-0.0000001, "0.000"),
        (0.00029, "0.00029"),
        (153.25, "153.2"),
        (21600, "21,600"),
        (-3.1416, "-3.142"),
        (math.nan, "not defined"),
    ],
)
def test_numbers_have_the_decimals_that_say_something(value: float, text: str) -> None:
    assert words.number(value) == text


def test_a_difference_has_its_sign_and_the_decimals_of_the_value() -> None:
    assert words.signed(1.532, 98.0) == "+1.5"
    assert words.signed(-0.0123, 0.5) == "-0.012"
    assert words.signed(0.0, 0.5) == words.signed(-0.0001, 0.5) == "0.000"
    assert words.interval((0.1, 0.25), 0.2) == "0.100 to 0.250"
    assert words.interval((0.00028, 0.0003), 0.00029) == "0.00028 to 0.00030"
    assert words.interval((-0.004, 0.003), 0.5) == "-0.004 to 0.003"  # of a difference: as many as the value
    assert words.interval(None, 0.2) == ""
    assert [words.fact(value) for value in (21600, 0.07, 1e-5, "sgd")] == ["21,600", "0.07", "1e-05", "sgd"]
