"""Stars among unit vectors: who is grouped with whom, whatever the size of the blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mocosearch_index import duplicates
from mocosearch_index.duplicates import NEVER, Float16, Int64, Spreading, all_scales, likeness, nearest_others, stars


def unit(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), np.float32)


def at_angles(*degrees: float) -> Float16:
    radians = np.deg2rad(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float16)


def ones(vectors: Float16) -> NDArray[np.float32]:
    """Return the scales at which likeness is the cosine."""
    return np.ones(len(vectors), np.float32)


def groups(vectors: Float16, threshold: float) -> dict[int, list[int]]:
    return {star.center: star.members.tolist() for star in stars(vectors, ones(vectors), threshold)}


def test_a_chain_does_not_become_one_group() -> None:
    within_ten_degrees = float(np.cos(np.deg2rad(10.5)))
    assert groups(at_angles(0, 10, 20, 30), within_ten_degrees) == {0: [1], 2: [3]}


def test_the_row_that_comes_first_takes_those_like_it() -> None:
    within_ten_degrees = float(np.cos(np.deg2rad(10.5)))
    assert groups(at_angles(10, 0, 20, 90), within_ten_degrees) == {0: [1, 2]}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), count=st.integers(1, 40), threshold=st.floats(-0.5, 0.99), blocks=st.integers(1, 9))
def test_every_member_is_like_its_center_and_nobody_is_left_who_should_not_be(
    seed: int, count: int, threshold: float, blocks: int
) -> None:
    vectors = unit(np.random.default_rng(seed).standard_normal((count, 3))).astype(np.float16)
    scales = np.random.default_rng(seed).uniform(0.1, 1, count).astype(np.float32)
    cosines = vectors.astype(np.float32) @ vectors.astype(np.float32).T
    alike = likeness(cosines, scales[:, None], scales)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_ROWS", blocks)
        patch.setattr(duplicates, "_COLUMNS", blocks + 1)
        found = list(stars(vectors, scales, threshold))
    members = [place for star in found for place in star.members.tolist()]
    assert len(set(members)) == len(members)
    assert not {star.center for star in found} & set(members)
    for star in found:
        assert (star.members > star.center).all()
        assert (alike[star.center, star.members] >= threshold - 1e-4).all()
        assert np.allclose(star.scores, alike[star.center, star.members].clip(-1, 1), atol=1e-3)
        assert not star.views.any()
    for one in set(range(count)) - set(members):  # centers and those alone are unlike all later ones that are
        later = [other for other in range(one + 1, count) if other not in members]
        assert (alike[one, later] < threshold + 1e-4).all()


def test_another_view_of_a_row_finds_what_the_row_does_not() -> None:
    vectors = at_angles(0, 90, 45)
    asked: list[list[int]] = []

    def views(rows: Int64) -> NDArray[np.float32]:
        asked.append(rows.tolist())
        other = np.zeros((len(rows), 2, 2), np.float32)
        other[rows == 0, 1] = (0, 1)  # the second other view of row 0
        return other

    [star] = stars(vectors, ones(vectors), 0.99, views, 0.99)
    assert (star.center, star.members.tolist(), star.views.tolist()) == (0, [1], [2])
    assert star.scores[0] == pytest.approx(1, abs=1e-3)
    assert asked == [[0, 1, 2]]


def test_rows_in_a_group_are_not_asked_for_other_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_ROWS", 2)
    asked: list[int] = []

    def views(rows: Int64) -> NDArray[np.float32]:
        asked.extend(rows.tolist())
        return np.zeros((len(rows), 1, 2), np.float32)

    vectors = at_angles(0, 90, 1, 180)
    list(stars(vectors, ones(vectors), 0.99, views, 0.99))
    assert asked == [0, 1, 3]


def test_a_row_found_as_it_is_stored_is_not_said_to_be_turned() -> None:
    same = np.tile(np.float32([[[1, 0]]]), (2, 1, 1))
    vectors = at_angles(0, 5)
    [star] = stars(vectors, ones(vectors), 0.9, lambda rows: same[: len(rows)], 0.9)
    assert star.views.tolist() == [0]


def test_nothing_reaches_the_threshold_that_stands_for_never() -> None:
    assert not groups(np.tile(at_angles(0), (5, 1)), NEVER)


def test_progress_ends_at_the_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_ROWS", 2)
    seen: list[int] = []
    vectors = at_angles(0, 60, 120, 180, 240)
    list(stars(vectors, all_scales(vectors, seen.append), 0.99, progress=seen.append))
    assert seen == [2, 4, 5, 2, 4, 5]


@given(seed=st.integers(0, 1000), count=st.integers(1, 30), k=st.integers(1, 4), columns=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_the_nearest_others_are_those_of_a_full_table(seed: int, count: int, k: int, columns: int) -> None:
    vectors = unit(np.random.default_rng(seed).standard_normal((count, 8))).astype(np.float16)
    queries = vectors.astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_COLUMNS", columns)
        cosines, rows = nearest_others(queries, np.arange(count), vectors, k)
    table = queries @ queries.T
    np.fill_diagonal(table, -np.inf)
    expected = np.pad(-np.sort(-table, axis=1), ((0, 0), (0, k)), constant_values=-np.inf)[:, :k]
    assert np.allclose(cosines, expected, atol=1e-5)
    assert ((rows == -1) == np.isneginf(expected)).all()
    real = rows >= 0
    assert np.allclose(np.take_along_axis(table, rows.clip(0), 1)[real], cosines[real], atol=1e-5)


def test_spreading_takes_away_what_all_share() -> None:
    rng = np.random.default_rng(0)
    crowded = unit(rng.standard_normal((500, 16)) + 10).astype(np.float16)
    assert (crowded.astype(np.float32) @ crowded[0].astype(np.float32)).min() > 0.9
    spread = Spreading(crowded).all(crowded.copy()).astype(np.float32)
    assert np.allclose(np.linalg.norm(spread, axis=1), 1, atol=1e-2)
    assert abs(spread.mean(axis=0)).max() < 0.1
    assert (spread[1:] @ spread[0]).max() < 0.9


def test_few_vectors_stay_as_they_are() -> None:
    few = at_angles(0, 10, 20)
    assert np.array_equal(Spreading(few).all(few.copy()), few)


def test_equal_vectors_can_be_spread() -> None:
    equal = np.tile(at_angles(30), (60, 1))
    assert np.isfinite(Spreading(equal).all(equal.copy()).astype(np.float32)).all()


def test_a_copy_stands_out_in_a_crowd_in_which_all_cosines_are_high() -> None:
    rng = np.random.default_rng(0)
    crowd = unit(np.eye(16)[0] + 0.1 * rng.standard_normal((60, 16)))
    copy = unit(crowd[:1] + 0.002 * rng.standard_normal((1, 16)))
    alone = unit(rng.standard_normal((60, 16)))
    vectors = np.concatenate([crowd, copy, alone]).astype(np.float16)
    scales = all_scales(vectors)
    found = list(stars(vectors, scales, 0.9))
    assert [(star.center, star.members.tolist()) for star in found] == [(0, [60])]
    assert (crowd[1:] @ crowd[0]).max() > 0.94
    assert scales[:61].max() < 0.3 < scales[61:].min()


def test_ten_copies_do_not_hide_each_other() -> None:
    rng = np.random.default_rng(0)
    copies = unit(np.eye(32)[0] + 0.03 * rng.standard_normal((10, 32)))
    vectors = np.concatenate([copies, unit(rng.standard_normal((50, 32)))]).astype(np.float16)
    [star] = stars(vectors, all_scales(vectors), 0.9)
    assert (star.center, star.members.tolist()) == (0, list(range(1, 10)))


def test_vectors_that_nearly_coincide_are_alike_however_many_they_are() -> None:
    many = at_angles(*np.linspace(30, 32, 40))
    [star] = stars(many, all_scales(many), 0.95)
    assert len(star.members) == 39


def test_among_few_rows_likeness_is_the_cosine() -> None:
    assert all_scales(at_angles(*range(0, 20, 2))).tolist() == [1.0] * 10
