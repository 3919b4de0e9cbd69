"""Checkpoints of other projects: a table of layouts, and the rule that every tensor must find its place."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mocosearch.errors import BadCheckpoint
from mocosearch_index.paths import shown

# What torch.load raises on files that are cut off, damaged or something else altogether.
_UNREADABLE = (RuntimeError, EOFError, ValueError, LookupError, AttributeError, TypeError, OSError)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a project puts the tensors of the network that is searched with."""

    name: str
    holder: str  # key of the file's dictionary that holds the tensors
    prefix: str  # of the query encoder's names
    head: str  # prefix, after `prefix`, of what belongs to the projection head and not to the backbone


LAYOUTS = (Layout("MoCo v1 or v2 of its authors", holder="state_dict", prefix="module.encoder_q.", head="fc."),)


@dataclass(frozen=True, slots=True)
class ForeignCheckpoint:
    """What a file of another project holds of use: tensors named as torchvision and our heads name them."""

    layout: str
    architecture: str
    epochs: int | None
    backbone: dict[str, Tensor]
    head: dict[str, Tensor]

    @property
    def has_mlp_head(self) -> bool:
        """Whether the projection head has a hidden layer, as from MoCo v2 on."""
        return "0.weight" in self.head

    @property
    def projection_dim(self) -> int | None:
        """Length of the projection that the loss was computed on; None without a head."""
        bias = self.head.get("2.bias" if self.has_mlp_head else "bias")
        return None if bias is None else bias.numel()


def read_checkpoint(path: Path) -> ForeignCheckpoint:
    """Read a file of one of LAYOUTS, tensors on the CPU. BadCheckpoint, which names the file, otherwise."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise BadCheckpoint(
            f"{shown(path)} holds more than tensors and plain values, or is damaged, and was not loaded: "
            "get it from its authors again, or save only its state_dict."
        ) from None
    except _UNREADABLE as error:
        raise BadCheckpoint(
            f"{shown(path)} cannot be read as a checkpoint ({_first_line(error)}): copy or download it again."
        ) from error
    if not isinstance(content, dict):
        raise _unknown_layout(path)
    for layout in LAYOUTS:
        tensors = _tensors(content.get(layout.holder), layout.prefix)
        if tensors:
            return _foreign(path, layout, content, tensors)
    raise _unknown_layout(path)


def match_tensors(expected: Mapping[str, Tensor], given: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """Return `given` as float32, ready for a strict load into a module whose state dict is `expected`.

    BadCheckpoint names every tensor that is missing, unknown or of another shape. Only batch norm's count of
    batches, which inference does not use, may be missing: old files lack it.
    """
    counts = {name: torch.zeros((), dtype=torch.int64) for name in expected if is_batch_count(name)}
    given = {**counts, **given}
    wrong = [f"{name} is missing" for name in expected if name not in given]
    wrong += [f"{name} is unknown" for name in given if name not in expected]
    wrong += [
        f"{name} is {tuple(tensor.shape)}, not {tuple(expected[name].shape)}"
        for name, tensor in given.items()
        if name in expected and tensor.shape != expected[name].shape
    ]
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise BadCheckpoint(
            f"{source} does not fit its network: {', '.join(wrong[:5])}{more}; use a file of the architecture it names."
        )
    return {name: given[name].to(expected[name].dtype) for name in expected}


def is_batch_count(name: str) -> bool:
    """Whether a tensor is batch norm's count of the batches it has seen."""
    return name.rpartition(".")[2] == "num_batches_tracked"


def _tensors(holder: object, prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `prefix`, without it."""
    if not isinstance(holder, dict):
        return {}
    named = ((name, value) for name, value in holder.items() if isinstance(name, str) and name.startswith(prefix))
    return {name.removeprefix(prefix): value for name, value in named if isinstance(value, Tensor)}


def _foreign(
    path: Path, layout: Layout, content: Mapping[str, object], tensors: dict[str, Tensor]
) -> ForeignCheckpoint:
    architecture, epochs = content.get("arch"), content.get("epoch")
    if not isinstance(architecture, str):
        raise BadCheckpoint(
            f"{shown(path)} does not name its architecture ('arch'): use a file as its authors saved it."
        )
    return ForeignCheckpoint(
        layout=layout.name,
        architecture=architecture,
        epochs=epochs if isinstance(epochs, int) else None,
        backbone={name: value for name, value in tensors.items() if not name.startswith(layout.head)},
        head={n.removeprefix(layout.head): value for n, value in tensors.items() if n.startswith(layout.head)},
    )


def _unknown_layout(path: Path) -> BadCheckpoint:
    known = ", ".join(layout.name for layout in LAYOUTS)
    return BadCheckpoint(f"{shown(path)} is a checkpoint of no known layout; known: {known}.")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
