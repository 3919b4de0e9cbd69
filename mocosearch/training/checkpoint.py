"""Checkpoints: written whole or not at all, the last few kept, read without running any code from the file."""

import pickle
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch

from mocosearch.errors import BadCheckpoint
from mocosearch_index.atomic import atomic_path

FORMAT = 1
KEPT = 2
# What reading damaged bytes raises, from the zip file down to the pickle in it.
_DAMAGED = (
    BadZipFile,
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def save_checkpoint(
    folder: Path, *, run: str | None, step: int, method: dict[str, Any], optimizer: dict[str, Any]
) -> Path:
    """Write `folder/step-NNNNNNNN.pt` of the run with the id `run`, and drop all but the newest `KEPT`."""
    folder.mkdir(exist_ok=True)
    path = folder / f"step-{step:08d}.pt"
    with atomic_path(path) as partial:
        torch.save({"format": FORMAT, "run": run, "step": step, "method": method, "optimizer": optimizer}, partial)
    drop_old_checkpoints(folder, keep=KEPT)
    return path


def drop_old_checkpoints(folder: Path, *, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints."""
    for old in checkpoints(folder)[:-keep]:
        old.unlink()


def load_latest(folder: Path, *, run: str | None, total_steps: int) -> dict[str, Any]:
    """Read the newest checkpoint; raises BadCheckpoint when there is none or it is damaged, never starts afresh.

    It must be of the run with the id `run`, which an older version did not write, and within its `total_steps`.
    """
    found = checkpoints(folder)
    if not found:
        raise BadCheckpoint(f"{folder} holds no checkpoint to resume from; train without --resume to start anew.")
    path = found[-1]
    try:
        state = _read(path)
    except _DAMAGED as error:
        older = f"delete it to resume from {found[-2].name}" if len(found) > 1 else "train anew, into another --out"
        what = str(error) if isinstance(error, BadZipFile) else type(error).__name__
        raise BadCheckpoint(f"The checkpoint {path} is damaged ({what}): {older}.") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise BadCheckpoint(
            f"The checkpoint {path} was written by another version of mocosearch: resume it with that, or train anew."
        )
    step = state.get("step")
    if state.get("run") != run or not isinstance(step, int) or not 0 <= step <= total_steps:
        raise not_of_this_run(folder)
    return state


def not_of_this_run(folder: Path) -> BadCheckpoint:
    """Return the error for a newest checkpoint that the run cannot have written."""
    return BadCheckpoint(
        f"The checkpoint {checkpoints(folder)[-1]} is not of this run: put the run's own one back, or train anew."
    )


def _read(path: Path) -> Any:
    """Read a checkpoint whose checksums are right; torch.load does not look at them."""
    with ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise BadZipFile(f"wrong checksum of {damaged}")
    return torch.load(path, map_location="cpu", weights_only=True)


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in `folder`, the newest last."""
    return sorted(folder.glob("step-*.pt"))
