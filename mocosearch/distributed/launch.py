"""Starting ranks, or joining those that torchrun or SLURM started."""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import distributed as dist
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from mocosearch.errors import BadDevices, Interrupted, RankFailed
from mocosearch_index.errors import MocosearchError

# Ranks wait while the first one reads photos; one that died is noticed by who started it, not by this.
_PATIENCE = timedelta(days=2)
_SECONDS_TO_SAVE = 30  # between asking a rank to stop and ending it
_SLURM_PORT = 20_000
_NOWHERE = logging.NullHandler()


def device_count(asked: int | None) -> int:
    """Return how many ranks to start: all visible GPUs, or one process on a CPU, unless `asked` says otherwise.

    Raises BadDevices for more than there are GPUs, or else cores: each process needs half a gigabyte.
    """
    gpus = torch.cuda.device_count()
    if asked is None:
        return max(1, gpus)
    most = gpus or max(2, os.cpu_count() or 1)  # two can be tried out anywhere
    if asked > most:
        there = f"There are {gpus} GPUs" if gpus else f"CPUs are used by at most {most} processes here"
        raise BadDevices(f"{there}, not {asked}: ask for fewer --devices.")
    return asked


def in_world() -> bool:
    """Tell whether torchrun, SLURM or `launch` started this process as one of several ranks."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 or int(os.environ.get("SLURM_NTASKS", "1")) > 1


def join_world() -> None:
    """Become a rank among those that the environment names: NCCL between GPUs, gloo between CPUs."""
    if "WORLD_SIZE" not in os.environ:
        _speak_torchrun()
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=_PATIENCE)


def _speak_torchrun() -> None:
    """Say in torchrun's variables what SLURM says in its own; BadDevices where `srun` did not start this process."""
    slurm = os.environ
    if not {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_JOB_NODELIST", "SLURM_JOB_ID"} <= slurm.keys():
        raise BadDevices(
            f"SLURM_NTASKS asks for {slurm['SLURM_NTASKS']} tasks, and this process is none of them: start it with "
            "srun, or unset SLURM_NTASKS to use this machine alone."
        )
    if "MASTER_ADDR" not in slurm:
        nodes = ["scontrol", "show", "hostnames", slurm["SLURM_JOB_NODELIST"]]
        try:
            first = subprocess.run(nodes, capture_output=True, text=True, check=True).stdout.split()[0]
        except (OSError, subprocess.CalledProcessError, IndexError) as error:
            raise BadDevices(
                f"SLURM cannot be asked for the first machine of the job ({error}): name it in MASTER_ADDR, or unset "
                "SLURM_NTASKS to use this machine alone."
            ) from error
        os.environ["MASTER_ADDR"] = first
    os.environ.setdefault("MASTER_PORT", str(_SLURM_PORT + int(slurm["SLURM_JOB_ID"]) % 10_000))
    os.environ["RANK"] = slurm["SLURM_PROCID"]
    os.environ["LOCAL_RANK"] = slurm["SLURM_LOCALID"]
    os.environ["WORLD_SIZE"] = slurm["SLURM_NTASKS"]


def launch(
    work: Callable[[], Any], ranks: int, *, remedy: str = "continue from the last checkpoint with --resume"
) -> Any:
    """Run `work`, which can be pickled, in `ranks` new processes of this machine; return what the first one returns.

    A MocosearchError of any rank is raised here again; when a rank dies otherwise the rest is ended and RankFailed
    says which and why, and `remedy`.
    """
    for chatty in ("torch.distributed.elastic", "torch.multiprocessing"):  # our own words are below
        logging.getLogger(chatty).addHandler(_NOWHERE)
        logging.getLogger(chatty).propagate = False  # a level would not do: modules below have their own
    with tempfile.TemporaryDirectory(prefix="mocosearch-ranks-") as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=ranks,
            run_id="mocosearch",
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
            shutdown_timeout=_SECONDS_TO_SAVE,
        )
        try:
            return elastic_launch(config, _rank)(work, folder)[0]
        except ChildFailedError as error:
            raise _reported(Path(folder)) or _died(error, Path(folder), remedy) from None
        except SignalException as error:
            raise _reported(Path(folder)) or Interrupted(
                f"Stopped by {signal.Signals(error.sigval).name}; {remedy}."
            ) from None


def _rank(work: Callable[[], Any], folder: str) -> Any:
    """Do a rank's work; leave word in `folder` of what went wrong."""
    try:
        join_world()
        result = work()
        dist.destroy_process_group()
    except MocosearchError as error:
        _report(folder, {"text": str(error), "exit_code": error.exit_code})
        _leave(error.exit_code)
    except Exception:  # the edge of the process: elastic would print a page, and who started the ranks says one line
        _report(folder, {"traceback": traceback.format_exc()})
        _leave(1)
    return result


def _leave(exit_code: int) -> NoReturn:
    """End this process at once: on the usual way out threads of gloo may abort it, with lines on stderr."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def _report(folder: str, content: dict[str, object]) -> None:
    # When: a rank says it before it leaves, so before the others can lose their connection to it and fail as well.
    (Path(folder) / f"{os.environ['RANK']}.json").write_text(json.dumps({"at": time.time_ns(), **content}))


def _reported(folder: Path) -> MocosearchError | None:
    """Return the error that a rank put in words, if one did."""
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        if "text" in content:
            error = Interrupted(content["text"]) if content["exit_code"] == 130 else RankFailed(content["text"])
            error.exit_code = content["exit_code"]
            return error
    return None


def _died(error: ChildFailedError, folder: Path, remedy: str) -> RankFailed:
    """Return the error for ranks that failed unexpectedly: a killed one, or the first that left word, is the cause.

    The others follow from it, though it may be one of them that the launcher names.
    """
    number, failure = min(error.failures.items(), key=lambda item: (item[1].exitcode >= 0, item[1].timestamp))
    reports = {int(path.stem): json.loads(path.read_text()) for path in folder.glob("*.json")}
    if failure.exitcode >= 0 and number in reports:
        number = min(reports, key=lambda rank: reports[rank]["at"])
    if failure.exitcode < 0:
        how = f"was killed by {signal.Signals(-failure.exitcode).name}"
    elif number in reports:
        how = f"failed ({reports[number]['traceback'].strip().splitlines()[-1]})"
    else:
        how = f"ended with exit code {failure.exitcode}"
    return RankFailed(f"The training process of rank {number} {how}, so the others were ended; {remedy}.")
