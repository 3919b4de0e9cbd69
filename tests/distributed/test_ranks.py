"""Several ranks as real processes that talk over gloo."""

import logging
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from numpy.testing import assert_allclose

from mocosearch.distributed.launch import device_count, join_world, launch
from mocosearch.errors import BadDevices, RankFailed
from tests.distributed import ranks_work
from tests.methods.reference import CASES, TIGHT, check, reference_method
from tests.training.photos import write_photos

VERSIONS = ("v1", "v2")
KINDS = ("moco", "end_to_end", "end_to_end_separate", "memory_bank")


@pytest.fixture(scope="module")
def parities() -> dict[str, ranks_work.Parity]:
    """All versions in one launch: a rank imports torch for longer than it trains."""
    found: dict[str, ranks_work.Parity] = launch(partial(ranks_work.parities, VERSIONS), 2)
    return found


@pytest.fixture(scope="module")
def on_three_ranks() -> dict[str, ranks_work.Trained]:
    found: dict[str, ranks_work.Trained] = launch(partial(ranks_work.train_each_small, KINDS, 25, 1), 3)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_parity_with_the_authors_implementation_on_two_ranks(
    version: str, parities: dict[str, ranks_work.Parity]
) -> None:
    for (losses, key_norm, state), expected in zip(parities[version], CASES[f"{version}_2rank"], strict=True):
        assert_allclose(losses, expected["losses"], **TIGHT)
        method = reference_method(version, groups=1)
        method.load_state_dict(state)
        check(method, version, key_norm, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_three_ranks_equal_three_batch_norm_groups_of_one_process(
    kind: str, on_three_ranks: dict[str, ranks_work.Trained]
) -> None:
    losses, states = on_three_ranks[kind]
    alone, (alone_state,) = ranks_work.train_small(kind, 25, 3)
    assert losses == pytest.approx(alone, rel=1e-9)
    for name, tensor in alone_state.items():
        if isinstance(tensor, torch.Tensor) and "running" not in name and "tracked" not in name:
            torch.testing.assert_close(states[0][name], tensor, rtol=1e-9, atol=1e-12)
    # Bit for bit the same on every rank, though nothing but gradients and keys was exchanged.
    assert len({ranks_work.fingerprint(state, but="backbone.1.") for state in states}) == 1


def test_what_ranks_exchange() -> None:
    found = launch(ranks_work.exchange, 3)
    assert found["gathered"] == [0.0, 1.0, 10.0, 11.0, 20.0, 21.0]
    # Rank r weighs the gathered rows 1..6 times (r + 1): each row's owner gets the sum over ranks.
    assert found["gradients"] == [[6.0, 12.0], [18.0, 24.0], [30.0, 36.0]]
    assert found["mean"] == [1.0, 2.0]
    assert found["told"] == ["from rank 0"] * 3
    assert found["refused"] == ["none here"] * 3


def test_ranks_that_do_not_see_the_same_photos_all_stop(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    write_photos(first)
    shutil.copytree(first, second)
    (second / "03.png").unlink()
    said = launch(partial(ranks_work.start_over, [first, second], tmp_path), 2)
    assert ["do not see the same photos" in text for text in said] == [True, True]
    assert not (tmp_path / "run").exists()


def test_a_mistake_on_one_rank_ends_all_and_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    named = r"rank 1 failed \(ZeroDivisionError: a mistake\), so the others were ended; look again\.$"
    with pytest.raises(RankFailed, match=named):
        launch(ranks_work.fail_on_one, 2, remedy="look again")
    capfd.readouterr()
    logging.getLogger("torch.distributed.elastic.agent.server.api").warning("Received 2 death signal")
    assert capfd.readouterr().err == ""  # what went wrong is said in our own words, once


def test_devices_default_to_what_is_there() -> None:
    gpus = torch.cuda.device_count()
    assert device_count(None) == max(1, gpus)
    most = gpus or max(2, os.cpu_count() or 1)
    assert device_count(most) == most
    with pytest.raises(BadDevices, match=rf"not {most + 1}: ask for fewer"):  # 40 processes fill a machine's memory
        device_count(most + 1)


def test_a_slurm_job_in_which_srun_did_not_start_the_command_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    monkeypatch.setenv("SLURM_NTASKS", "4")
    with pytest.raises(BadDevices, match="asks for 4 tasks, and this process is none of them: start it with srun"):
        join_world()
    for name in ("PROCID", "LOCALID", "JOB_NODELIST", "JOB_ID"):
        monkeypatch.setenv(f"SLURM_{name}", "0")
    monkeypatch.setenv("PATH", str(tmp_path))  # without scontrol, as in many containers
    with pytest.raises(BadDevices, match=r"scontrol.* name it in MASTER_ADDR"):
        join_world()
