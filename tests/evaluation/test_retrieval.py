"""Retrieval against scikit-learn, torchmetrics and cases computed by hand, on random and on degenerate photos."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, precision_recall_curve
from torchmetrics import retrieval as torchmetrics

from mocosearch.errors import Unscorable
from mocosearch.evaluation.inputs import unit_vectors
from mocosearch.evaluation.outcome import Outcome
from mocosearch.evaluation.retrieval import first_k
from mocosearch.evaluation.retrieval.protocol import evaluate_retrieval
from mocosearch.evaluation.retrieval.ranking import rank
from mocosearch.evaluation.retrieval.relevance import Pairs, Relevance, SameLabel
from tests.evaluation.outcomes import figures, of_photos

Truth = NDArray[np.bool_]  # (n, n): which photo is relevant to which

# Cosines: a0 a1 .8, a0 b0 0, a0 b1 -.6, a1 b0 .6, a1 b1 0, b0 b1 .8
FOUR = np.array([[1, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]], dtype=np.float32)


def same(labels: NDArray[np.int64]) -> Truth:
    return labels[:, None] == labels


def rankings(
    vectors: NDArray[np.floating], truth: Truth, held_out: Truth | None = None
) -> Iterator[tuple[NDArray[np.float64], Truth]]:
    """Yield scores without ties, all positive, and truth of what each scored photo is compared with: by definition."""
    unit = vectors.astype(np.float64)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    everybody = range(len(unit))
    for own in everybody if held_out is None else np.flatnonzero(held_out):
        others = [i for i in everybody if (i != own if held_out is None else not held_out[i])]
        if truth[own, others].any():
            order = sorted(others, key=lambda i: (-(unit[own] @ unit[i]), i))
            score = {photo: float(len(order) - place) for place, photo in enumerate(order)}
            yield np.array([score[i] for i in others]), truth[own, others]


def assert_agrees(outcome: Outcome, expected: list[tuple[NDArray[np.float64], Truth]]) -> None:
    """Compare with scikit-learn photo by photo, with torchmetrics as a whole."""
    average = [average_precision_score(truth, scores) for scores, truth in expected]
    np.testing.assert_allclose(of_photos(outcome, "mAP"), average, atol=1e-12)
    preds = torch.from_numpy(np.concatenate([scores for scores, _ in expected]))
    target = torch.from_numpy(np.concatenate([truth for _, truth in expected]))
    indexes = torch.repeat_interleave(torch.tensor([len(truth) for _, truth in expected]))
    metrics: dict[str, torchmetrics.RetrievalMetric] = {
        "mAP": torchmetrics.RetrievalMAP(),
        "R-precision": torchmetrics.RetrievalRPrecision(),
    }
    for k in (1, 5, 10):
        if k <= len(expected[0][0]):
            metrics[f"precision@{k}"] = torchmetrics.RetrievalPrecision(top_k=k)
            metrics[f"recall@{k}"] = torchmetrics.RetrievalRecall(top_k=k)
            metrics[f"hit@{k}"] = torchmetrics.RetrievalHitRate(top_k=k)
    found = figures(outcome)
    assert found.keys() == metrics.keys()
    for name, metric in metrics.items():
        assert found[name] == pytest.approx(float(metric(preds, target, indexes)), abs=1e-6), name


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parts", [False, True])
def test_classes_score_as_scikit_learn_and_torchmetrics_have_it(seed: int, parts: bool) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 5, 90) * 7 - 3  # any whole numbers do
    vectors = generator.standard_normal((90, 12)) * 3 + 2 * np.eye(12)[labels // 7 + 1]
    held_out = generator.random(90) < 0.3 if parts else None
    outcome = evaluate_retrieval(vectors, SameLabel(labels), held_out)
    assert_agrees(outcome, list(rankings(vectors, same(labels), held_out)))


@pytest.mark.parametrize("seed", range(4))
def test_pairs_score_as_scikit_learn_and_torchmetrics_have_it(seed: int) -> None:
    generator = np.random.default_rng(seed)
    pairs = generator.integers(0, 60, (40, 2))  # some twice, some in both orders, some of a photo with itself
    vectors = generator.standard_normal((60, 9))
    truth = np.zeros((60, 60), bool)
    for one, other in pairs:
        truth[one, other] = truth[other, one] = one != other
    assert_agrees(evaluate_retrieval(vectors, Pairs(pairs, 60)), list(rankings(vectors, truth)))


@pytest.mark.parametrize("seed", range(4))
def test_equal_scores_are_ranked_by_lower_place(seed: int) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, 40)
    signs = generator.choice([-1.0, 1.0], (40, 1))
    vectors = signs * np.eye(4)[generator.integers(0, 4, 40)]  # cosines of -1, 0 and 1 only
    assert_agrees(evaluate_retrieval(vectors, SameLabel(labels)), list(rankings(vectors, same(labels))))


def test_a_collapsed_encoder_ranks_by_place() -> None:
    labels = np.array([0, 1, 0, 1, 1, 0, 0])
    vectors = np.ones((7, 3))
    assert_agrees(evaluate_retrieval(vectors, SameLabel(labels)), list(rankings(vectors, same(labels))))


def test_a_zero_vector_is_like_nothing_and_breaks_nothing() -> None:
    labels = np.array([0, 0, 1, 1, 0])
    vectors = np.vstack([FOUR, np.zeros((1, 2), np.float32)])
    assert_agrees(evaluate_retrieval(vectors, SameLabel(labels)), list(rankings(vectors, same(labels))))


def test_more_queries_than_a_block_holds_are_ranked_as_by_plain_sorting() -> None:
    generator = np.random.default_rng(0)
    vectors, labels = generator.standard_normal((4500, 8)).astype(np.float32), generator.integers(0, 9, 4500)
    unit, everybody = unit_vectors(vectors), np.arange(4500)
    ranking = rank(unit, SameLabel(labels), everybody, everybody)
    for own in (0, 1863, 1864, 4499):  # a block has 1,864 rows
        others = np.delete(everybody, own)
        cosines = unit[others] @ unit[own]
        assert ranking.shown.indices[own].tolist() == others[np.argsort(-cosines, kind="stable")[:100]].tolist()
        average = average_precision_score(labels[others] == labels[own], cosines)
        assert ranking.average_precision[own] == pytest.approx(average, abs=1e-4)


def test_figures_of_four_photos_computed_by_hand() -> None:
    outcome = evaluate_retrieval(FOUR, Pairs(np.array([[0, 1], [1, 3]]), 4))
    # Seen from a0: a1 b0 b1; from a1: a0 b0 b1; from b1: b0 a1 a0. b0 has no partner.
    assert of_photos(outcome, "mAP") == pytest.approx([1, (1 + 2 / 3) / 2, 1 / 2])
    assert of_photos(outcome, "R-precision") == pytest.approx([1, 1 / 2, 0])
    assert of_photos(outcome, "recall@1") == pytest.approx([1, 1 / 2, 0])
    assert of_photos(outcome, "hit@1") == pytest.approx([1, 1, 0])
    assert outcome.facts["scored"] == 3
    assert outcome.facts["without relevant photos"] == 1
    assert outcome.notices == ("1 of 4 photos are not scored: no other photo is relevant to them.",)


def test_average_precision_of_the_first_k_is_1_when_nothing_else_is_among_them() -> None:
    hits = np.array([[1, 1, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0]], dtype=np.bool_)
    scores = first_k.average_precision(hits, np.array([50, 50, 1]), 3)
    np.testing.assert_allclose(scores, [1, (1 + 2 / 3) / 3, 1 / 2])


def test_k_beyond_what_can_be_shown_has_no_figure() -> None:
    assert "precision@1" in figures(evaluate_retrieval(FOUR, SameLabel(np.array([0, 0, 1, 1]))))
    assert "precision@5" not in figures(evaluate_retrieval(FOUR, SameLabel(np.array([0, 0, 1, 1]))))


def test_precision_over_recall_is_interpolated_as_by_scikit_learns_curve() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 70)
    vectors = generator.standard_normal((70, 6)) + 2 * np.eye(6)[labels]
    steps = np.zeros(11)
    for scores, truth in rankings(vectors, same(labels)):
        precision, recall, _ = precision_recall_curve(truth, scores)
        # Its last point, recall 0 at precision 1, is none of the ranking.
        steps += [precision[:-1][recall[:-1] > step - 1e-9].max() for step in np.linspace(0, 1, 11)]
    over_recall, _ = evaluate_retrieval(vectors, SameLabel(labels)).curves
    np.testing.assert_allclose(over_recall.y, steps / 70)
    np.testing.assert_allclose(over_recall.x, np.linspace(0, 1, 11))


def test_the_curve_over_k_agrees_with_the_figures() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 200)
    outcome = evaluate_retrieval(generator.standard_normal((200, 6)), SameLabel(labels))
    by_k = dict(zip(outcome.curves[1].x, outcome.curves[1].y, strict=True))
    assert {k: by_k[k] for k in (1, 5, 10)} == {k: figures(outcome)[f"precision@{k}"] for k in (1, 5, 10)}
    assert max(by_k) == 100


def test_of_one_class_everything_is_right_and_so_is_chance() -> None:
    outcome = evaluate_retrieval(FOUR, SameLabel(np.zeros(4, np.int64)))
    assert {figure.name: (figure.value, figure.chance) for figure in outcome.figures} == {
        "mAP": (1, pytest.approx(1)),
        "R-precision": (1, 1),
        "precision@1": (1, 1),
        "recall@1": (pytest.approx(1 / 3), pytest.approx(1 / 3)),
        "hit@1": (1, 1),
    }


def test_where_no_photo_is_relevant_to_another_nothing_can_be_scored() -> None:
    nothing: list[tuple[Relevance, NDArray[np.bool_] | None]] = [
        (SameLabel(np.arange(4)), None),
        (Pairs(np.empty((0, 2), np.int64), 4), None),
        (Pairs(np.array([[2, 2]]), 4), None),
        (SameLabel(np.array([0, 0, 1, 1])), np.array([True, True, False, False])),
    ]
    for relevance, held_out in nothing:
        with pytest.raises(Unscorable, match="No photo has another one"):
            evaluate_retrieval(FOUR, relevance, held_out)
    with pytest.raises(Unscorable, match="No photo has another one"):
        evaluate_retrieval(FOUR[:1], SameLabel(np.array([0])))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_refused(bad: float) -> None:
    vectors = FOUR.copy()
    vectors[2, 1] = bad
    with pytest.raises(Unscorable, match="1 of 4 vectors"):
        evaluate_retrieval(vectors, SameLabel(np.array([0, 0, 1, 1])))


def test_relevance_of_other_photos_is_refused() -> None:
    with pytest.raises(ValueError, match="of 4 photos, not of 3"):
        evaluate_retrieval(FOUR, SameLabel(np.array([0, 0, 1])))
    for pairs in ([[0, 4]], [[-1, 0]], [[0, 1, 2]]):
        with pytest.raises(ValueError, match="pairs must"):
            Pairs(np.array(pairs), 4)


def test_examples_are_what_a_search_shows() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 25)
    vectors = generator.standard_normal((100, 6)) + 2 * np.eye(6)[labels]
    held_out = generator.random(100) < 0.4
    examples = evaluate_retrieval(vectors, SameLabel(labels), held_out).examples
    assert examples is not None
    assert held_out[examples.queries].all()
    assert not held_out[examples.neighbors].any()
    assert examples.neighbors.shape == (8, 10)
    assert set(labels[examples.queries]) == {0, 1, 2, 3}
    assert np.array_equal(examples.hits, labels[examples.neighbors] == labels[examples.queries][:, None])
    unit = unit_vectors(vectors)
    cosines = np.einsum("qkd,qd->qk", unit[examples.neighbors], unit[examples.queries])
    np.testing.assert_allclose(examples.scores, cosines, atol=1e-6)
