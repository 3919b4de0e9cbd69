"""Encoders side by side: differences photo by photo, and what is called better, worse and a tie."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mocosearch.errors import Unscorable
from mocosearch.evaluation.comparison import Row, compare
from mocosearch.evaluation.intervals import difference_intervals, interval_of
from mocosearch.evaluation.outcome import Figure, Outcome

Floats = NDArray[np.float64]


def outcome(*figures: Figure, protocol: str = "retrieval") -> Outcome:
    return Outcome(protocol, figures)


def scored(of_photos: Floats, *, lower: bool = False, chance: float | None = 0.1) -> Figure:
    better = "lower" if lower else "higher"
    return Figure("mAP", float(of_photos.mean()), chance, better, of_photos)  # type: ignore[arg-type]


def verdicts(row: Row) -> list[str | None]:
    return [cell.verdict for cell in row.cells]


HARD = np.random.default_rng(0).random(300)  # how hard the photos are, for every encoder
NOISE = np.random.default_rng(1).normal(0, 0.05, (3, 300))


def test_an_encoder_has_value_interval_and_chance_and_nothing_to_differ_from() -> None:
    (row,) = compare([outcome(scored(HARD))])
    (cell,) = row.cells
    assert (row.name, row.better, row.chance) == ("mAP", "higher", 0.1)
    assert (cell.value, cell.interval) == (HARD.mean(), interval_of(HARD))
    assert (cell.difference, cell.difference_interval, cell.verdict) == (None, None, None)


def test_a_figure_that_is_a_difference_has_the_interval_of_one() -> None:
    gain = np.zeros(20)
    (row,) = compare([outcome(Figure("index - exact", 0.0, of_photos=gain, is_difference=True))])
    assert row.cells[0].interval == (0, 0)  # as a share it could be .16 by luck
    gain[3] = -1
    (row,) = compare([outcome(Figure("index - exact", gain.mean(), of_photos=gain, is_difference=True))])
    assert row.cells[0].interval == difference_intervals([gain])[0]


def test_the_others_are_compared_with_the_first() -> None:
    good, bad, same = HARD + 0.03 + NOISE[0], HARD - 0.03 + NOISE[1], HARD + NOISE[2] - NOISE[2].mean()
    (row,) = compare([outcome(scored(numbers)) for numbers in (HARD, good, bad, same)])
    assert verdicts(row) == [None, "better", "worse", "tie"]
    for cell, numbers in zip(row.cells[1:], (good, bad, same), strict=True):
        assert cell.difference == pytest.approx(numbers.mean() - HARD.mean())
        assert cell.difference_interval is not None
        low, high = cell.difference_interval
        assert low < cell.difference < high
    (turned,) = compare([outcome(scored(numbers)) for numbers in (good, HARD)])
    assert verdicts(turned) == [None, "worse"]


def test_where_lower_is_better_the_lower_one_is_better() -> None:
    (row,) = compare([outcome(scored(numbers, lower=True)) for numbers in (HARD, HARD - 0.03 + NOISE[0], HARD + 0.03)])
    assert verdicts(row) == [None, "better", "worse"]


def test_what_is_hard_for_both_encoders_does_not_blur_their_difference() -> None:
    (row,) = compare([outcome(scored(numbers)) for numbers in (HARD, HARD + 0.02 + NOISE[0])])
    first, second = (cell.interval for cell in row.cells)
    assert first is not None
    assert second is not None
    assert second[0] < first[1]  # the encoders' own intervals overlap
    assert verdicts(row) == [None, "better"]


def test_an_encoder_ties_with_itself_at_exactly_nothing() -> None:
    (row,) = compare([outcome(scored(HARD)), outcome(scored(HARD.copy()))])
    cell = row.cells[1]
    assert (cell.difference, cell.difference_interval, cell.verdict) == (0.0, (0.0, 0.0), "tie")


def test_a_figure_without_photos_has_a_difference_but_no_verdict() -> None:
    rows = compare([outcome(Figure("effective rank", value), scored(HARD)) for value in (20.0, 50.0)])
    assert [row.name for row in rows] == ["effective rank", "mAP"]
    cell = rows[0].cells[1]
    assert (cell.interval, cell.difference, cell.difference_interval, cell.verdict) == (None, 30.0, None, None)


def test_the_verdict_on_an_encoder_does_not_depend_on_which_others_are_compared() -> None:
    others = [outcome(scored(HARD + 0.01 + noise)) for noise in NOISE]
    (together,) = compare([outcome(scored(HARD)), *others])
    for number, other in enumerate(others, start=1):
        (alone,) = compare([outcome(scored(HARD)), other])
        assert alone.cells[1].verdict == together.cells[number].verdict
        assert alone.cells[1].difference_interval == pytest.approx(together.cells[number].difference_interval)


@pytest.mark.parametrize(
    "other",
    [
        outcome(scored(HARD), protocol="knn"),
        outcome(scored(HARD[1:])),
        outcome(scored(HARD, lower=True)),
        outcome(scored(HARD, chance=0.2)),
        outcome(Figure("mAP", 0.5, 0.1)),
        outcome(Figure("precision@10", 0.5, 0.1, of_photos=HARD)),
        outcome(),
    ],
    ids=["protocol", "photos", "direction", "chance", "no photos", "name", "no figures"],
)
def test_what_is_not_of_the_same_kind_is_not_compared(other: Outcome) -> None:
    with pytest.raises(Unscorable, match="cannot be compared"):
        compare([outcome(scored(HARD)), other])
