"""Where an encoder comes from: what people can name, and how each of it becomes a network with its card.

A name is a place on the disk, SCHEME:NAME, or one of the downloads that the authors of MoCo publish.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import safetensors.torch
import torch
import torchvision
from safetensors import SafetensorError
from torch import Tensor, nn

from mocosearch.encoders import timm_models
from mocosearch.encoders.card import IMAGENET, EncoderCard, EncoderFacts, Preprocessing
from mocosearch.encoders.checkpoint_formats import (
    ForeignCheckpoint,
    match_tensors,
    read_checkpoint,
    read_tensors,
    recognize,
    without_prefix,
)
from mocosearch.encoders.downloads import PUBLISHED, Announce, BytesCallback, Published, fetch, fetch_file
from mocosearch.errors import BadCheckpoint, BadRecipe, NoEncoder
from mocosearch.nets import backbone_names, build_backbone
from mocosearch_index.paths import is_reachable, printable, shown

CARD_FILE, TENSOR_FILE = "encoder.json", "model.safetensors"
BACKBONE = "backbone."  # what the network's tensors are called in TENSOR_FILE
FORMS = "a run folder, an encoder/ folder, a checkpoint file, torchvision:NAME, timm:NAME, timm:NAME=FILE, or one of "
FORMS += ", ".join(PUBLISHED)
_TORCHVISION_LICENSE = "none stated; trained on ImageNet, whose terms are for research"


@dataclass(frozen=True, slots=True)
class Source:
    """An encoder as it was found: a network with its weights, and what is known of it."""

    place: str  # for messages
    network: nn.Module
    card: EncoderCard
    preprocessing: Preprocessing
    stated_fingerprint: str | None = None  # in files of ours, which vouches for the tensors


def open_source(spec: str | Path, announce: Announce, progress: BytesCallback) -> Source:
    """Find and read what `spec` names; NoEncoder, BadCheckpoint, DownloadFailed."""
    path = Path(spec)
    if is_reachable(path):
        if path.name in (CARD_FILE, TENSOR_FILE) and (path.parent / CARD_FILE).is_file():
            path = path.parent
        if path.is_dir():
            return _from_folder(path)
        if path.is_file():
            return _from_file(path)
    scheme, colon, name = str(spec).partition(":")
    if colon and scheme in SCHEMES:
        return SCHEMES[scheme](name, announce, progress)
    if str(spec) in PUBLISHED:
        file = fetch(str(spec), announce=announce, progress=progress)
        return _foreign(read_checkpoint(file), shown(file), f"{PUBLISHED[str(spec)].trained_on}, {spec}")
    raise NoEncoder(f"There is no encoder {printable(os.fsencode(spec))}; give {FORMS}.")


def _from_folder(path: Path) -> Source:
    folder = next((place for place in (path / "encoder", path) if (place / CARD_FILE).is_file()), None)
    if folder is None:
        raise BadCheckpoint(f"{shown(path)} holds no finished encoder; give {FORMS}.")
    try:
        facts = EncoderFacts.from_json((folder / CARD_FILE).read_bytes(), shown(folder / CARD_FILE))
        tensors = safetensors.torch.load_file(folder / TENSOR_FILE)
    except (OSError, SafetensorError) as error:
        raise BadCheckpoint(
            f"{shown(folder)} cannot be read ({error}): copy the whole folder again, or train again."
        ) from error
    backbone = {name.removeprefix(BACKBONE): t for name, t in tensors.items() if name.startswith(BACKBONE)}
    return _own(facts, backbone, shown(folder))


def _from_file(path: Path) -> Source:
    """A file that `mocosearch export` wrote, or one of another project."""
    if path.suffix.lower() == ".onnx":
        raise BadCheckpoint(
            f"{shown(path)}: ONNX files are written but cannot be read; name the run, or a safetensors file of it."
        )
    file = read_tensors(path)
    if file.facts is not None:
        return _own(EncoderFacts.from_json(file.facts, shown(path)), file.tensors, shown(path))
    return _foreign(recognize(file, shown(path)), shown(path), trained_on=f"unknown photos, weights of {path}")


def _from_torchvision(name: str, announce: Announce, progress: BytesCallback) -> Source:
    """The weights that torchvision has for one of its ResNets by default, from torch's own cache (TORCH_HOME)."""
    if name not in backbone_names():
        raise NoEncoder(f"torchvision has no ResNet '{name}'; known: {', '.join(backbone_names())}.")
    weights = torchvision.models.get_model_weights(name).DEFAULT
    base, _, file_name = weights.url.rpartition("/")
    digest = file_name.rpartition("-")[2].partition(".")[0]  # as torch.hub reads it: the file's sha256 begins so
    published = Published(file_name, digest, "ImageNet-1K", _TORCHVISION_LICENSE, base, "sha256")
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    file = fetch_file(f"torchvision:{name}", published, folder, announce=announce, progress=progress)
    seen = weights.transforms()
    preprocessing = Preprocessing(seen.resize_size[0], seen.crop_size[0], tuple(seen.mean), tuple(seen.std))
    return _foreign(read_checkpoint(file), shown(file), f"{published.trained_on}, {weights}", preprocessing)


def _from_timm(name: str, announce: Announce, progress: BytesCallback) -> Source:
    """A network of timm with the weights that timm publishes, or with those in a file: NAME=FILE."""
    name, given, file_name = name.partition("=")
    if given and not (is_reachable(Path(file_name)) and Path(file_name).is_file()):
        raise NoEncoder(f"There is no file {shown(Path(file_name))}: give timm:NAME=FILE.")
    network = timm_models.build(name)
    path = Path(file_name) if given else timm_models.fetch_weights(network, name, announce, progress)
    tensors = timm_models.own_names(without_prefix(read_tensors(path).tensors), network, shown(path))
    network.load_state_dict(match_tensors(network.state_dict(), tensors, shown(path)), assign=True)
    card = EncoderCard(
        architecture=f"{timm_models.SCHEME}{name}",
        small_stem=False,
        feature_dim=None,
        trained_on=f"unknown photos, weights of {file_name}"
        if given
        else f"the data of {timm_models.repository(network)}",
        photos=None,
        steps=None,
        recipe="timm",
        created="",
    )
    return Source(shown(path), network, card, timm_models.preprocessing(network, name))


SCHEMES: Mapping[str, Callable[[str, Announce, BytesCallback], Source]] = {
    "torchvision": _from_torchvision,
    "timm": _from_timm,
}


def _own(facts: EncoderFacts, backbone: Mapping[str, Tensor], place: str) -> Source:
    network = _network(facts.card, backbone, place)
    return Source(place, network, facts.card, facts.preprocessing, facts.fingerprint)


def _foreign(
    foreign: ForeignCheckpoint, place: str, trained_on: str, preprocessing: Preprocessing = IMAGENET
) -> Source:
    epochs = "" if foreign.epochs is None else f", {foreign.epochs} epochs"
    card = EncoderCard(
        architecture=foreign.architecture,
        small_stem=foreign.small_stem,
        feature_dim=foreign.projection_dim,
        trained_on=trained_on,
        photos=None,
        steps=None,
        recipe=f"{foreign.recipe}{epochs}",
        created="",
        stem_padding=foreign.stem_padding,
        stem_relu=foreign.stem_relu,
    )
    return Source(place, _network(card, foreign.backbone, place), card, preprocessing)


class NamedNetwork(Protocol):
    """What says which network it is: the card of an encoder, or the backbone of a recipe."""

    @property
    def architecture(self) -> str:
        """Return a torchvision ResNet, or timm:NAME."""

    @property
    def small_stem(self) -> bool:
        """Tell whether its first convolution is that for small images; all three as for `nets.build_backbone`."""

    @property
    def stem_padding(self) -> int:
        """Return the padding of that convolution."""

    @property
    def stem_relu(self) -> bool:
        """Tell whether a ReLU follows it."""


def new_network(named: NamedNetwork) -> nn.Module:
    """Build the network that `named` tells of with new weights, drawn from torch's generator.

    Raises BadRecipe, NoEncoder for an architecture that is not known here.
    """
    if named.architecture.startswith(timm_models.SCHEME):
        return timm_models.build(named.architecture.removeprefix(timm_models.SCHEME))
    return build_backbone(
        named.architecture, small_stem=named.small_stem, stem_padding=named.stem_padding, stem_relu=named.stem_relu
    )


def _network(card: EncoderCard, tensors: Mapping[str, Tensor], place: str) -> nn.Module:
    """Build the network around `tensors`, every one of which must match."""
    # On "meta" no memory and no random numbers for weights that are replaced at once. Networks of timm have buffers
    # that are in no file, so these are made in earnest.
    device = "cpu" if card.architecture.startswith(timm_models.SCHEME) else "meta"
    try:
        with torch.device(device):
            network = new_network(card)
    except BadRecipe as error:
        raise BadCheckpoint(f"{place} cannot be used: {error}") from None
    network.load_state_dict(match_tensors(network.state_dict(), tensors, place), assign=True)
    return network
