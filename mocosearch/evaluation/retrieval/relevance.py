"""What a search should find: photos of the same class or of the same thing, or those that a list of pairs names."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mocosearch.evaluation.inputs import Labels, checked_labels

Places: TypeAlias = NDArray[np.int64]  # in the list of all n photos
Marks: TypeAlias = NDArray[np.bool_]


class SameLabel:
    """Photos are relevant to each other when they have one label: a class, or the thing that they show."""

    def __init__(self, labels: NDArray[np.integer]) -> None:
        """`labels` (n,), any whole numbers."""
        self._labels: Labels = checked_labels(labels, len(labels))
        self.count = len(labels)

    def marks(self, queries: Places, shown: Places) -> Marks:
        """Tell (m, k) whether `shown`, (m, k) or (k,) for all, are relevant to `queries` (m,)."""
        marks: Marks = self._labels[shown] == self._labels[queries][:, None]
        return marks

    def counts(self, queries: Places, gallery: Places) -> Places:
        """Count (m,) what is relevant to each of `queries` (m,) in `gallery` (g,), itself not counted."""
        of_label = np.bincount(self._labels[gallery], minlength=self.count)
        own: Places = np.isin(queries, gallery).astype(np.int64)
        return of_label[self._labels[queries]] - own

    def groups(self, queries: Places) -> Labels:
        """Return (m,) numbers of what examples are to be spread over."""
        return self._labels[queries]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Photos are relevant to each other when they are a pair. A photo paired with itself says nothing."""

    pairs: Places  # (p, 2); which of the two comes first, and how often a pair is named, does not matter
    count: int  # photos

    def __post_init__(self) -> None:
        """Refuse what is no list of pairs of `count` photos: ValueError."""
        if self.pairs.ndim != 2 or self.pairs.shape[1] != 2:
            raise ValueError(f"pairs must have shape (p, 2), not {self.pairs.shape}")
        if len(self.pairs) and not (self.pairs.min() >= 0 and self.pairs.max() < self.count):
            raise ValueError(f"pairs must name places from 0 to {self.count - 1}")

    def marks(self, queries: Places, shown: Places) -> Marks:
        """Tell (m, k) whether `shown`, (m, k) or (k,) for all, are relevant to `queries` (m,)."""
        row_of = np.full(self.count, -1)
        row_of[queries] = np.arange(len(queries))
        related = np.zeros((len(queries), self.count), dtype=np.bool_)
        for one, other in (self.pairs.T, self.pairs.T[::-1]):
            asked = (row_of[one] >= 0) & (one != other)
            related[row_of[one[asked]], other[asked]] = True
        marks: Marks = related[np.arange(len(queries))[:, None], shown]
        return marks

    def counts(self, queries: Places, gallery: Places) -> Places:
        """Count (m,) what is relevant to each of `queries` (m,) in `gallery` (g,), itself not counted."""
        both = np.unique(np.concatenate([self.pairs, self.pairs[:, ::-1]]), axis=0)
        there = np.isin(both[:, 1], gallery) & (both[:, 0] != both[:, 1])
        counts: Places = np.bincount(both[there, 0], minlength=self.count)[queries]
        return counts

    def groups(self, queries: Places) -> Labels:
        """Return (m,) numbers of what examples are to be spread over: nothing."""
        return np.zeros(len(queries), np.int64)


Relevance: TypeAlias = SameLabel | Pairs
