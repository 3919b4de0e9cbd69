"""What holds for retrieval figures of any photos, and what chance gives."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mocosearch.evaluation.retrieval import first_k
from mocosearch.evaluation.retrieval.protocol import evaluate_retrieval
from mocosearch.evaluation.retrieval.relevance import Pairs, SameLabel
from tests.evaluation.outcomes import figures


@pytest.mark.parametrize("gallery", [1, 2, 5])
def test_chance_is_the_mean_over_all_orders(gallery: int) -> None:
    for relevant in range(1, gallery + 1):
        orders = set(itertools.permutations([True] * relevant + [False] * (gallery - relevant)))
        hits, number = np.array(sorted(orders)), np.full(len(orders), relevant)
        assert first_k.chance_precision(number, gallery)[0] == pytest.approx(relevant / gallery)
        for k in range(1, gallery + 1):
            average = first_k.average_precision(hits, number, k).mean()
            assert first_k.chance_average_precision(number, gallery, k)[0] == pytest.approx(average)
            assert first_k.chance_precision(number, gallery)[0] == pytest.approx(first_k.precision(hits, k).mean())
            assert first_k.chance_hit(number, gallery, k)[0] == pytest.approx(first_k.hit_rate(hits, k).mean())
            assert k / gallery == pytest.approx(first_k.recall(hits, number, k).mean())


def same(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    return labels[:, None] == labels


photos = st.integers(2, 30).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(0, 4), min_size=count, max_size=count).filter(lambda labels: len(set(labels)) < count),
        st.integers(0, 2**16),
    )
)


@given(photos)
@settings(max_examples=60, deadline=None)
def test_classes_named_as_pairs_score_the_same(drawn: tuple[list[int], int]) -> None:
    labels = np.array(drawn[0])
    vectors = np.random.default_rng(drawn[1]).standard_normal((len(labels), 3))
    pairs = np.argwhere(np.triu(same(labels), 1))
    by_class, by_pair = (evaluate_retrieval(vectors, how) for how in (SameLabel(labels), Pairs(pairs, len(labels))))
    for one, other in zip(by_class.figures, by_pair.figures, strict=True):
        assert (one.name, one.value, one.chance) == (other.name, other.value, other.chance)


@given(photos, st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_relevant_is_counted_without_the_photo_itself(
    drawn: tuple[list[int], int], data: st.DataObject
) -> None:
    labels = np.array(drawn[0])
    gallery = np.array(sorted(data.draw(st.sets(st.integers(0, len(labels) - 1), min_size=1))))
    everybody = np.arange(len(labels))
    expected = (same(labels) & ~np.eye(len(labels), dtype=bool))[:, gallery].sum(axis=1)
    for relevance in (SameLabel(labels), Pairs(np.argwhere(same(labels)), len(labels))):
        assert np.array_equal(relevance.counts(everybody, gallery), expected)


@given(photos)
@settings(max_examples=60, deadline=None)
def test_shares_stay_shares_and_grow_with_k(drawn: tuple[list[int], int]) -> None:
    labels = np.array(drawn[0])
    vectors = np.random.default_rng(drawn[1]).standard_normal((len(labels), 3))
    outcome = evaluate_retrieval(vectors, SameLabel(labels))
    for figure in outcome.figures:
        assert figure.of_photos is not None
        assert figure.of_photos.min() >= 0 <= figure.chance
        assert figure.of_photos.max() <= 1 + 1e-12
        assert figure.chance <= 1 + 1e-12
        assert figure.value == pytest.approx(figure.of_photos.mean())
    found = figures(outcome)
    for name in ("recall", "hit"):
        values = [found[f"{name}@{k}"] for k in (1, 5, 10) if f"{name}@{k}" in found]
        assert values == sorted(values)
    assert found["hit@1"] == found["precision@1"]
    assert (np.diff(outcome.curves[0].y) <= 1e-12).all()


@given(photos)
@settings(max_examples=60, deadline=None)
def test_an_encoder_that_knows_the_classes_scores_one(drawn: tuple[list[int], int]) -> None:
    labels = np.array(drawn[0])
    found = figures(evaluate_retrieval(np.eye(5)[labels] * 7, SameLabel(labels)))
    assert found["mAP"] == pytest.approx(1)
    assert found["R-precision"] == found["hit@1"] == 1


@given(photos)
@settings(max_examples=60, deadline=None)
def test_neither_the_order_of_photos_nor_the_length_of_vectors_matters(drawn: tuple[list[int], int]) -> None:
    labels = np.array(drawn[0])
    generator = np.random.default_rng(drawn[1])
    vectors = generator.standard_normal((len(labels), 3))
    order, lengths = generator.permutation(len(labels)), generator.uniform(0.1, 9, (len(labels), 1))
    found = figures(evaluate_retrieval(vectors, SameLabel(labels)))
    again = figures(evaluate_retrieval((vectors * lengths)[order], SameLabel(labels[order])))
    assert again == pytest.approx(found)
