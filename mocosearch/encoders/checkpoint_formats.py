"""Checkpoints of other projects: a table of layouts, and the rule that every tensor must find its place.

A file is a state dict, or holds one under `state_dict` or `model`. The layout says which names in it are the network
that is searched with; its shapes say which ResNet that is.
"""

import argparse
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from mocosearch.errors import BadCheckpoint
from mocosearch_index.paths import shown

# What torch.load raises on files that are cut off, damaged or something else altogether.
_UNREADABLE = (RuntimeError, EOFError, ValueError, LookupError, AttributeError, TypeError, OSError)
_HOLDERS = ("state_dict", "model")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a project puts the tensors of the network that is searched with."""

    name: str
    prefix: str  # of their names
    beside: str = ""  # prefix of other tensors, by which files of this project are told from similar ones
    stem_padding: int = 1  # of the 3x3 first convolution that it uses for small images


# The first that fits is taken, so the more telling ones come first.
LAYOUTS = (
    Layout("MoCo v1 or v2 of its authors", prefix="module.encoder_q."),
    Layout("MoCo v1 or v2 trained on one GPU", prefix="encoder_q."),
    Layout("MoCo v3 of its authors", prefix="module.base_encoder."),
    Layout("solo-learn", prefix="backbone.", beside="classifier.", stem_padding=2),
    Layout("solo-learn of 2021", prefix="encoder.", beside="classifier.", stem_padding=2),
    Layout("lightly", prefix="backbone."),
    Layout("a torchvision or timm ResNet trained on several GPUs", prefix="module."),
    Layout("a torchvision or timm ResNet", prefix=""),
)

# Blocks of the four stages, whether they are bottlenecks, and the 3x3 convolution of the first: width, inputs a group.
_TRAITS: dict[str, tuple[int, ...]] = {
    "resnet18": (2, 2, 2, 2, False, 64, 64),
    "resnet34": (3, 4, 6, 3, False, 64, 64),
    "resnet50": (3, 4, 6, 3, True, 64, 64),
    "resnet101": (3, 4, 23, 3, True, 64, 64),
    "resnet152": (3, 8, 36, 3, True, 64, 64),
    "resnext50_32x4d": (3, 4, 6, 3, True, 128, 4),
    "resnext101_32x8d": (3, 4, 23, 3, True, 256, 8),
    "resnext101_64x4d": (3, 4, 23, 3, True, 256, 4),
    "wide_resnet50_2": (3, 4, 6, 3, True, 128, 128),
    "wide_resnet101_2": (3, 4, 23, 3, True, 128, 128),
}


@dataclass(frozen=True, slots=True)
class ForeignCheckpoint:
    """What a file of another project holds of use: tensors named as torchvision and our heads name them."""

    layout: Layout
    architecture: str
    epochs: int | None
    backbone: dict[str, Tensor]
    head: dict[str, Tensor]  # what the file calls fc: MoCo's projection head, or a classifier
    stem_relu: bool

    @property
    def small_stem(self) -> bool:
        """Whether the first convolution is the 3x3 one for small images."""
        weight = self.backbone.get("conv1.weight")
        return weight is not None and weight.shape[-2:] == (3, 3)

    @property
    def stem_padding(self) -> int:
        """How a small stem is padded, which no tensor shows."""
        return self.layout.stem_padding if self.small_stem else 1

    @property
    def recipe(self) -> str:
        """How it was trained, as far as the file tells: MoCo v2's projection head has a hidden layer, v1's has none."""
        if self.layout not in LAYOUTS[:2]:
            return self.layout.name
        return "moco_v2" if "0.weight" in self.head else "moco_v1"

    @property
    def projection_dim(self) -> int | None:
        """Length of the projection that MoCo's loss was computed on; None for other projects and without a head."""
        layers = sorted(name for name, tensor in self.head.items() if tensor.ndim == 2)
        return len(self.head[layers[-1]]) if layers and self.layout in LAYOUTS[:3] else None


@dataclass(frozen=True, slots=True)
class TensorFile:
    """The tensors of a file by the names they have there, on the CPU, and the few plain values beside them."""

    tensors: dict[str, Tensor]
    arch: str | None = None
    epoch: int | None = None
    facts: str | None = None  # what `mocosearch export` wrote into the header of a safetensors file


FACTS_KEY = "mocosearch"


def read_checkpoint(path: Path) -> ForeignCheckpoint:
    """Read a ResNet from a file of one of LAYOUTS, tensors on the CPU; else BadCheckpoint, which names the file."""
    return recognize(read_tensors(path), shown(path))


def read_tensors(path: Path) -> TensorFile:
    """Read a safetensors file, or one of torch.save without running any code in it; BadCheckpoint names the file."""
    if _is_safetensors(path):
        try:
            with safetensors.safe_open(path, "pt") as file:
                facts = (file.metadata() or {}).get(FACTS_KEY)
            return TensorFile(safetensors.torch.load_file(path), facts=facts)
        except (OSError, SafetensorError) as error:
            raise _unreadable(path, error) from error
    try:
        # torchvision's and timm's training scripts keep their flags in the file; a Namespace only holds values.
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise BadCheckpoint(
            f"{shown(path)} holds more than tensors and plain values, or is damaged, and was not loaded: "
            "get it from its authors again, or save only its state_dict."
        ) from None
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    return _from_pickle(content)


def recognize(file: TensorFile, source: str) -> ForeignCheckpoint:
    """Find the ResNet that is searched with; BadCheckpoint, which names `source`, when there is none."""
    for layout in LAYOUTS:
        tensors = _below(file.tensors, layout.prefix)
        if tensors and any(name.startswith(layout.beside) for name in file.tensors):
            named, stem_relu = _as_torchvision_names(tensors)
            if any(name == "conv1.weight" or name.startswith("layer1.") for name in named):
                return _foreign(file, layout, named, stem_relu)
    known = ", ".join(layout.name for layout in LAYOUTS)
    raise BadCheckpoint(
        f"{source} is a checkpoint of no known layout; known: {known}. Of another network name the architecture as "
        "timm has it: timm:NAME=FILE."
    )


def without_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that any layout takes for the network, of whatever architecture, by the network's names."""
    found = (_below(tensors, layout.prefix) for layout in LAYOUTS)
    return next(filter(None, found), {})


def match_tensors(expected: Mapping[str, Tensor], given: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """Return `given` as float32, ready for a strict load into a module whose state dict is `expected`.

    BadCheckpoint names every tensor that is missing, unknown, of another shape or of another kind: a network of plain
    floating-point tensors takes no integers, complex numbers, sparse or quantized tensors. Only batch norm's count
    of batches, which inference does not use, may be missing: old files lack it.
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
    wrong += [
        f"{name} holds {_kind(tensor)}"
        for name, tensor in given.items()
        if name in expected and not _is_plain(tensor, like=expected[name])
    ]
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise BadCheckpoint(
            f"{source} does not fit its network: {', '.join(wrong[:5])}{more}; use a file of the architecture it names."
        )
    return {name: given[name].to(expected[name].dtype) for name in expected}


def _is_plain(tensor: Tensor, *, like: Tensor) -> bool:
    """Whether `tensor` is dense, in memory, and of floating-point numbers (quantized ones are none) if `like` is."""
    dense = tensor.layout == torch.strided and not tensor.is_meta
    return dense and not tensor.is_complex() and tensor.is_floating_point() == like.is_floating_point()


def _kind(tensor: Tensor) -> str:
    """Say in words what torch calls the type of a tensor, as `int64` or `sparse_coo float32`."""
    words = f"{'' if tensor.layout == torch.strided else tensor.layout} {tensor.dtype}{' of no data' * tensor.is_meta}"
    return words.replace("torch.", "").strip()


def is_batch_count(name: str) -> bool:
    """Whether a tensor is batch norm's count of the batches it has seen."""
    return name.rpartition(".")[2] == "num_batches_tracked"


def _from_pickle(content: object) -> TensorFile:
    """Find the state dict in what torch.load gave; no tensors when there is none."""
    if not isinstance(content, dict):
        return TensorFile({})
    held = next((content[key] for key in _HOLDERS if isinstance(content.get(key), dict)), content)
    tensors = {name: value for name, value in held.items() if isinstance(name, str) and isinstance(value, Tensor)}
    arch, epoch = content.get("arch"), content.get("epoch")
    return TensorFile(tensors, arch if isinstance(arch, str) else None, epoch if isinstance(epoch, int) else None)


def _as_torchvision_names(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], bool]:
    """Rename what lightly names otherwise; also tell whether a ReLU follows the first batch norm.

    lightly's examples put the children of a ResNet into an nn.Sequential, so that they are numbered. torchvision's are
    conv1, bn1, relu, maxpool, layer1 ...; those of lightly's own ResNet are conv1, bn1, layer1 ... and its ReLU, which
    was no child, is lost. The latter says shortcut and linear where torchvision says downsample and fc.
    """
    numbered = "0.weight" in tensors
    own = any(".shortcut." in name for name in tensors)
    names = {"0": "conv1", "1": "bn1"} | {str((1 if own else 3) + stage): f"layer{stage}" for stage in range(1, 5)}
    renamed = {}
    for name, tensor in tensors.items():
        first, _, rest = name.partition(".")
        new = f"{names.get(first, first)}.{rest}" if numbered else name
        if own:
            new = re.sub(r"^linear\.", "fc.", new.replace(".shortcut.", ".downsample."))
        renamed[new] = tensor
    return renamed, not (numbered and own)


def _foreign(file: TensorFile, layout: Layout, named: dict[str, Tensor], stem_relu: bool) -> ForeignCheckpoint:
    return ForeignCheckpoint(
        layout=layout,
        architecture=file.arch if file.arch in _TRAITS else _nearest_architecture(named),
        epochs=file.epoch,
        backbone={name: tensor for name, tensor in named.items() if not name.startswith("fc.")},
        head=_below(named, "fc."),
        stem_relu=stem_relu,
    )


def _nearest_architecture(tensors: Mapping[str, Tensor]) -> str:
    """Name the ResNet that has most traits of these tensors: what then does not fit can be told tensor by tensor."""
    blocks = [len({name.split(".")[1] for name in tensors if name.startswith(f"layer{n}.")}) for n in range(1, 5)]
    width = tensors.get("layer1.0.conv2.weight")
    shape = tuple(width.shape[:2]) if width is not None and width.ndim == 4 else (0, 0)
    traits = (*blocks, "layer1.0.conv3.weight" in tensors, *shape)
    return max(_TRAITS, key=lambda name: sum(a == b for a, b in zip(_TRAITS[name], traits, strict=True)))


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _is_safetensors(path: Path) -> bool:
    """Whether the file begins with the length of a JSON object and that object, whatever it is called."""
    try:
        with path.open("rb") as file:
            start = file.read(9)
    except OSError as error:
        raise _unreadable(path, error) from error
    return start[8:] == b"{"


def _unreadable(path: Path, error: BaseException) -> BadCheckpoint:
    return BadCheckpoint(
        f"{shown(path)} cannot be read as a checkpoint ({_first_line(error)}): copy or download it again."
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
