import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mocosearch import randomness


def test_the_numbers_are_the_same_in_another_process() -> None:
    code = (
        "from mocosearch import randomness as r;"
        "print(r.uniforms(3, 4, count=2).tolist(), r.permutation(3, 4, size=5).tolist())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here = randomness.uniforms(3, 4, count=2).tolist(), randomness.permutation(3, 4, size=5).tolist()
    assert printed.strip() == f"{here[0]} {here[1]}"


@given(seed=st.integers(0, 2**62), ids=st.lists(st.integers(0, 10**9), min_size=1, max_size=5, unique=True))
def test_a_batch_draws_what_each_image_would_draw_alone(seed: int, ids: list[int]) -> None:
    together = randomness.uniforms(seed, np.array(ids), count=3)
    assert together.shape == (len(ids), 3)
    assert together.min() >= 0
    assert together.max() < 1
    for row, one in zip(together, ids, strict=True):
        assert np.array_equal(row, randomness.uniforms(seed, one, count=3))


def test_neighboring_keys_give_unrelated_even_numbers() -> None:
    numbers = randomness.uniforms(0, np.arange(20_000), count=4)
    counts = np.stack([np.histogram(column, bins=20, range=(0, 1))[0] for column in numbers.T])
    assert ((counts - 1000) ** 2 / 1000).sum(axis=1).max() < 55  # chi-square, 19 degrees of freedom, p < 1e-5
    assert np.abs(np.corrcoef(numbers.T) - np.eye(4)).max() < 0.03
    assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.03


@given(size=st.integers(1, 200), epoch=st.integers(0, 1000))
def test_a_permutation_holds_every_number_once(size: int, epoch: int) -> None:
    assert sorted(randomness.permutation(1, epoch, size=size).tolist()) == list(range(size))


def test_seeds_fit_other_generators() -> None:
    seeds = {randomness.seed_of(0, key) for key in range(1000)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)
