"""bench/search_latency.py at a small size."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from bench.search_parts import interleaved, recall_of, vectors
from tests.warm import completed

ROOT = Path(__file__).parents[2]


def test_it_measures_levels_growth_and_the_peers_that_are_installed() -> None:
    options = ["--sizes", "1200", "--dim", "32", "--peers-at", "1200", "--rounds", "1", "--repeat", "2", "--added", "9"]
    done = completed("bench.search_latency", [*options, "--levels", "exact,ivf"], folder=ROOT)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    levels = {row[1]: row for row in rows if len(row) == 11}
    ours = {f"{level}{whitened}" for level in ("exact", "ivf") for whitened in ("", ", whitened")}
    assert {name for name in levels if name.strip("-")} == {"level", *ours}
    assert levels["exact"][5] == levels["exact, whitened"][5] == "1.0000"
    assert all(float(levels[name][5]) > 0.9 for name in ours)
    [grown] = [row for row in rows if len(row) == 8 and row[2] == "9"]
    assert grown[-1] == "True"
    peers = {row[1] for row in rows if len(row) == 8 and row[0] == "1,200" and row[2] != "9"}
    assert peers == {name for name in ("hnswlib", "usearch") if importlib.util.find_spec(name) is not None}


def test_the_vectors_are_clustered_and_always_the_same() -> None:
    first = vectors(0, 500, 64, clusters=5)
    assert np.array_equal(first, vectors(0, 500, 64, clusters=5))
    assert not np.array_equal(first, vectors(500, 1000, 64, clusters=5))
    scores = np.sort(first @ first.T, axis=1)
    assert scores[:, -50].mean() > scores[:, :-200].mean() + 0.3


def test_recall_counts_what_was_found_wherever_it_stands() -> None:
    truth = np.array([[1, 2], [3, 4]])
    assert recall_of(np.array([[2, 1], [4, 9]]), truth) == pytest.approx(0.75)


def test_another_contestant_goes_first_in_every_round() -> None:
    order: list[str] = []
    asked = np.zeros((200, 4), np.float32)

    def contestant(name: str) -> np.ndarray:
        order.append(name)
        return asked

    taken = interleaved({name: lambda _, name=name: contestant(name) for name in "ab"}, asked, rounds=2, each=1)
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert {name: len(times) for name, times in taken.items()} == {"a": 2, "b": 2}
