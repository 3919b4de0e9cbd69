"""Retrieval through a real index: what it shows, what it loses of exact search, and that nothing of it stays."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mocosearch.errors import BadSettings
from mocosearch.evaluation.inputs import Vectors, unit_vectors
from mocosearch.evaluation.retrieval import through_index
from mocosearch.evaluation.retrieval.protocol import evaluate_retrieval
from mocosearch.evaluation.retrieval.relevance import SameLabel
from mocosearch.evaluation.retrieval.through_index import ask_index, recall_of_nearest
from mocosearch_index.records import SearchSettings
from tests.evaluation.outcomes import figure, of_photos

AS_IT_IS = SearchSettings(whiten=False)


def in_classes(count: int, dim: int, classes: int = 5) -> tuple[Vectors, NDArray[np.int64]]:
    """Vectors around a center each class, so near each other that classes overlap."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, classes, count)
    centers = generator.standard_normal((classes, dim))
    return (centers[labels] + 1.5 * generator.standard_normal((count, dim))).astype(np.float32), labels


def test_an_exact_index_shows_what_exact_search_does_and_says_what_it_is() -> None:
    vectors, labels = in_classes(300, 32)
    outcome = evaluate_retrieval(vectors, SameLabel(labels), index_settings=AS_IT_IS)
    assert figure(outcome, "index recall@10").value == 1  # float16 moves no cosine by more than a tie is wide
    for name in ("precision@10", "hit@10"):
        exact, through, gain = (figure(outcome, way.format(name)) for way in ("{}", "index {}", "index {} - exact"))
        assert through.value == pytest.approx(exact.value, abs=0.002)
        assert gain.value == pytest.approx(through.value - exact.value)
        assert through.chance == exact.chance
    assert abs(figure(outcome, "index mAP@100 - exact").value) < 0.002
    assert outcome.facts["index level"] == "exact"
    assert outcome.facts["index numbers of a vector"] == 32
    assert outcome.notices == ()


def test_average_precision_of_a_whole_ranking_is_the_same_through_the_index() -> None:
    vectors, labels = in_classes(60, 16)
    outcome = evaluate_retrieval(vectors, SameLabel(labels), index_settings=AS_IT_IS)
    through = figure(outcome, "index mAP@100")
    assert through.value == pytest.approx(figure(outcome, "mAP").value, abs=0.002)
    assert through.chance == pytest.approx(figure(outcome, "mAP").chance)


def test_a_projection_to_few_numbers_is_seen_to_lose() -> None:
    vectors, labels = in_classes(300, 32)
    outcome = evaluate_retrieval(vectors, SameLabel(labels), index_settings=SearchSettings(dim=1, whiten=False))
    assert outcome.facts["index numbers of a vector"] == 1
    assert figure(outcome, "index recall@10").value < 0.3
    assert figure(outcome, "index precision@10 - exact").value < -0.2
    assert figure(outcome, "index mAP@100 - exact").value < -0.2
    assert "projected vectors" in outcome.notices[0]


def test_whitened_vectors_are_told_as_such() -> None:
    vectors, labels = in_classes(300, 32)
    outcome = evaluate_retrieval(vectors, SameLabel(labels), index_settings=SearchSettings(whiten=True))
    assert outcome.facts["index whitened"] == "yes"
    assert "whitened vectors, as a library does without --no-whiten" in outcome.notices[0]


def test_cells_are_asked_and_told() -> None:
    vectors, labels = in_classes(1200, 16)
    outcome = evaluate_retrieval(vectors, SameLabel(labels), index_settings=SearchSettings(level="ivf", whiten=False))
    assert outcome.facts["index level"] == "ivf"
    assert 1 <= int(outcome.facts["index cells visited"]) <= int(outcome.facts["index cells"])
    assert 0.95 < figure(outcome, "index recall@10").value <= 1
    assert outcome.notices == ()


def test_what_too_few_photos_do_not_allow_is_said() -> None:
    vectors, labels = in_classes(30, 32)
    settings = SearchSettings(level="compressed", dim=16, whiten=False)
    notices = evaluate_retrieval(vectors, SameLabel(labels), index_settings=settings).notices
    assert notices == (
        "30 photos are searched by level exact: too few for compressed.",
        "30 photos are too few or too much alike to learn a projection from: the index searches the vectors as they "
        "are.",
    )


def test_an_index_of_the_training_part_is_asked_with_the_test_part() -> None:
    vectors, labels = in_classes(200, 16)
    held_out = np.arange(200) % 4 == 0
    queries, gallery = np.flatnonzero(held_out), np.flatnonzero(~held_out)
    shown = ask_index(unit_vectors(vectors), queries, gallery, AS_IT_IS, 200).places
    assert np.array_equal(np.sort(shown[:, :150], axis=1), np.tile(gallery, (50, 1)))
    assert (shown[:, 150:] == -1).all()
    outcome = evaluate_retrieval(vectors, SameLabel(labels), held_out, index_settings=AS_IT_IS)
    assert figure(outcome, "index recall@10").value == 1


def test_a_photo_is_not_shown_itself_though_others_are_equal_to_it() -> None:
    unit = unit_vectors(np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]]))
    everybody = np.arange(4)
    shown = ask_index(unit, everybody, everybody, AS_IT_IS, 3).places
    assert shown.tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]


def test_a_vector_without_direction_is_neither_shown_nor_searched_with() -> None:
    unit = unit_vectors(np.array([[1.0, 0], [0, 0], [1, 1], [0, 1]]))
    everybody = np.arange(4)
    shown = ask_index(unit, everybody, everybody, AS_IT_IS, 3).places
    assert shown.tolist() == [[2, 3, -1], [-1, -1, -1], [0, 3, -1], [2, 0, -1]]
    outcome = evaluate_retrieval(unit, SameLabel(np.zeros(4, np.int64)), index_settings=AS_IT_IS)
    assert of_photos(outcome, "index hit@3").tolist() == [1, 0, 1, 1]


def test_of_equally_near_photos_any_counts_as_found() -> None:
    unit = unit_vectors(np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]]))
    shown = np.array([[2], [3], [-1]])  # the nearest of photo 0 are 1 and 2
    recall = recall_of_nearest(unit, np.array([0, 0, 0]), np.ones(3, np.float32), shown)
    assert recall.tolist() == [1, 0, 0]


def test_a_photo_that_is_a_little_farther_than_the_nearest_is_not_what_was_looked_for() -> None:
    angles = np.array([0, 0.3, -0.301, 2])
    unit = unit_vectors(np.stack([np.cos(angles), np.sin(angles)], axis=1))  # cosines .9553, .9550 and -.4
    recall = recall_of_nearest(unit, np.array([0, 0]), unit[[1, 1]] @ unit[0], np.array([[1], [2]]))
    assert recall.tolist() == [1, 0]


def test_where_all_photos_would_take_long_an_even_sample_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(through_index, "_MOST_COMPARED", 21 * 60)  # as if this were long
    vectors, labels = in_classes(60, 4)
    outcome = evaluate_retrieval(vectors, SameLabel(labels), index_settings=AS_IT_IS)
    exact = of_photos(outcome, "precision@10")[np.linspace(0, 59, 21).round().astype(int)]
    assert of_photos(outcome, "index precision@10") == pytest.approx(exact)
    assert outcome.facts["asked of the index"] == 21
    assert outcome.notices == ("The index is asked with 21 of the 60 photos, evenly spaced.",)


def test_nothing_of_the_index_stays_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    vectors, labels = in_classes(30, 4)
    evaluate_retrieval(vectors, SameLabel(labels), index_settings=AS_IT_IS)
    with pytest.raises(BadSettings):
        evaluate_retrieval(vectors, SameLabel(labels), index_settings=SearchSettings(dim=5))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dim", [0, 33])
def test_more_numbers_than_there_are_cannot_be_searched(dim: int) -> None:
    vectors, labels = in_classes(30, 32)
    with pytest.raises(BadSettings, match=f"from 1 to 32, not {dim}"):
        evaluate_retrieval(vectors, SameLabel(labels), index_settings=SearchSettings(dim=dim))
