"""An encoder: a network that turns a photo into a unit vector, and the two files that hold it.

`encoder/` holds `model.safetensors` (tensors `backbone.*` and, from training, `head.*`; the searched vector is the
backbone's output) and `encoder.json` (what it is, where it comes from, how a photo is prepared for it). The
fingerprint of weights and preprocessing tells whether two encoders give the same vectors.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from torch import Tensor, nn

from mocosearch.checkpoint_formats import is_batch_count, match_tensors, read_checkpoint
from mocosearch.devices import autocast_dtype, best_device
from mocosearch.downloads import PUBLISHED, Announce, BytesCallback, fetch
from mocosearch.errors import BadCheckpoint, BadRecipe, NoEncoder
from mocosearch.images.views import IMAGENET_MEAN, IMAGENET_STD
from mocosearch.nets import build_backbone, feature_dim
from mocosearch_index.atomic import atomic_path, atomic_write
from mocosearch_index.paths import printable, shown

FORMAT = 1
CARD_FILE, TENSOR_FILE = "encoder.json", "model.safetensors"
FORMS = "a run folder, an encoder/ folder, a checkpoint file of MoCo's authors, or one of " + ", ".join(PUBLISHED)


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How a photo becomes input: short side to `resize` (bicubic, antialiased), center crop, normalize."""

    resize: int  # pixels
    crop: int  # pixels, at most `resize`
    mean: tuple[float, float, float]  # RGB, of values in [0, 1]
    std: tuple[float, float, float]

    def __post_init__(self) -> None:
        if not 1 <= self.crop <= self.resize:
            raise ValueError(f"crop {self.crop} is not in 1 .. resize {self.resize}")

    def prepare(self, image: Image.Image) -> Tensor:
        """Cut a picture (RGB, any size) to what the network sees: uint8 (3, crop, crop)."""
        scale = min(image.size) / self.resize  # pixels of the picture per pixel of the input
        # Resized and cropped in one go: a picture of 1 x 30,000 pixels is never blown up whole.
        left, top = ((side / scale - self.crop) // 2 * scale for side in image.size)
        box = (left, top, min(left + self.crop * scale, image.width), min(top + self.crop * scale, image.height))
        cut = image.resize((self.crop, self.crop), Image.Resampling.BICUBIC, box=box, reducing_gap=3.0)
        return torch.from_numpy(np.array(cut)).permute(2, 0, 1)


IMAGENET = Preprocessing(resize=256, crop=224, mean=IMAGENET_MEAN, std=IMAGENET_STD)


@dataclass(frozen=True, slots=True)
class EncoderCard:
    """What an encoder is and what it was trained on, for people; None where a file of another project does not say."""

    architecture: str  # a torchvision ResNet
    small_stem: bool
    feature_dim: int | None  # length of the projection that the loss was computed on
    trained_on: str  # a folder or the name of a data set
    photos: int | None
    steps: int | None
    recipe: str
    created: str  # ISO 8601, or empty

    @property
    def description(self) -> str:
        """One line that is safe to print."""
        if self.steps == 0:
            return f"{self.architecture}, untrained"
        photos = "" if self.photos is None else f"{self.photos:,} photos of "
        steps = "" if self.steps is None else f", {self.steps:,} steps"
        line = f"{self.architecture} trained on {photos}{self.trained_on} ({self.recipe}{steps})"
        return printable(os.fsencode(line))


class Encoder:
    """A network in inference mode on one device. Several threads may use it at once."""

    def __init__(
        self, network: nn.Module, card: EncoderCard, preprocessing: Preprocessing, device: torch.device
    ) -> None:
        self.card = card
        self.preprocessing = preprocessing
        self.device = device
        self.dim = feature_dim(network)
        network = network.eval().requires_grad_(False)
        self.network = network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._autocast = autocast_dtype(device)
        # (x / 255 - mean) / std as one multiplication and one addition
        mean, std = (torch.tensor(value).view(1, 3, 1, 1) for value in (preprocessing.mean, preprocessing.std))
        self._scale, self._shift = (1 / (255 * std)).to(device), (-mean / std).to(device)

    @cached_property
    def fingerprint(self) -> str:
        """What tells this encoder from others: see `fingerprint`."""
        return fingerprint(self.network.state_dict(), self.preprocessing)

    def prepare(self, image: Image.Image) -> Tensor:
        """Cut a picture (RGB, any size) to what the network sees: uint8 (3, crop, crop)."""
        return self.preprocessing.prepare(image)

    @torch.inference_mode()
    def embed(self, batch: Tensor) -> NDArray[np.float32]:
        """Embed prepared pictures, uint8 (B, 3, crop, crop): float32 (B, dim), rows of unit length.

        Raises BadCheckpoint when the network gives numbers that are not finite.
        """
        images = batch.to(self.device).contiguous(memory_format=torch.channels_last) * self._scale + self._shift
        with torch.autocast(self.device.type, dtype=self._autocast, enabled=self._autocast is not None):
            features = self.network(images)
        vectors = nn.functional.normalize(features.float(), dim=1).cpu().numpy()
        if not np.isfinite(vectors).all():
            raise BadCheckpoint(
                f"The encoder {self.fingerprint} gives numbers that are not finite: its weights are no good; "
                "train again, or name another with --encoder."
            )
        return np.asarray(vectors, dtype=np.float32)

    def embed_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Embed one picture (RGB, any size): float32 (dim,) of unit length."""
        return np.asarray(self.embed(self.prepare(image)[None])[0])

    def save(self, folder: Path) -> None:
        """Write this encoder, without a projection head, so that `load_encoder(folder)` gives it again."""
        state = {f"backbone.{name}": tensor for name, tensor in self.network.state_dict().items()}
        save_encoder(folder, state, self.card, self.preprocessing)


def fingerprint(backbone: Mapping[str, Tensor], preprocessing: Preprocessing) -> str:
    """Return 16 hex digits of a hash of all that decides a vector: names, types, shapes, bytes and preprocessing."""
    digest = hashlib.sha256(json.dumps(asdict(preprocessing), sort_keys=True).encode())
    for name in sorted(backbone):
        if not is_batch_count(name):
            tensor = backbone[name].detach().cpu().contiguous()
            digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]


def save_encoder(folder: Path, state: Mapping[str, Tensor], card: EncoderCard, preprocessing: Preprocessing) -> None:
    """Write `encoder.json` and `model.safetensors` into `folder`; `state` holds `backbone.*` and `head.*`."""
    folder.mkdir(parents=True, exist_ok=True)
    # Channels-last and float64 networks are stored alike: contiguous float32.
    tensors = {
        name: (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
        for name, tensor in state.items()
    }
    facts = {
        "format": FORMAT,
        "fingerprint": fingerprint(_below(tensors, "backbone."), preprocessing),
        "card": asdict(card),
        "preprocessing": asdict(preprocessing),
    }
    with atomic_path(folder / TENSOR_FILE) as partial:
        safetensors.torch.save_file(tensors, partial)
    atomic_write(folder / CARD_FILE, json.dumps(facts, indent=2).encode("ascii"))  # last: it vouches for the tensors


def load_encoder(
    spec: str | Path,
    device: torch.device | None = None,
    *,
    announce: Announce = lambda offer: None,
    progress: BytesCallback = lambda done: None,
) -> Encoder:
    """Load an encoder: a run folder, an encoder folder, a file of a known layout, or a named download.

    `announce` and `progress` go to `downloads.fetch`, should the network be needed. Raises NoEncoder when `spec`
    names nothing, BadCheckpoint when what it names is not an encoder, is damaged or does not fit.
    """
    device = device or best_device()
    path = Path(spec)
    if path.is_dir():
        return _load_folder(path, device)
    if path.is_file():
        return _load_file(path, device, trained_on=str(path))
    if str(spec) in PUBLISHED:
        file = fetch(str(spec), announce=announce, progress=progress)
        return _load_file(file, device, trained_on=f"{PUBLISHED[str(spec)].trained_on}, {spec}")
    raise NoEncoder(f"There is no encoder {printable(os.fsencode(path))}; give {FORMS}.")


def _load_folder(path: Path, device: torch.device) -> Encoder:
    folder = next((place for place in (path / "encoder", path) if (place / CARD_FILE).is_file()), None)
    if folder is None:
        raise BadCheckpoint(f"{shown(path)} holds no finished encoder; give {FORMS}.")
    card, preprocessing, stated = _read_card(folder / CARD_FILE)
    try:
        tensors = safetensors.torch.load_file(folder / TENSOR_FILE)
    except (OSError, SafetensorError) as error:
        raise BadCheckpoint(
            f"{shown(folder / TENSOR_FILE)} cannot be read ({error}): copy the whole folder again, or train again."
        ) from error
    network = _build(card.architecture, card.small_stem, _below(tensors, "backbone."), shown(folder))
    encoder = Encoder(network, card, preprocessing, device)
    if encoder.fingerprint != stated:
        raise BadCheckpoint(
            f"The two files in {shown(folder)} do not belong together ({CARD_FILE} is of {stated}, {TENSOR_FILE} of "
            f"{encoder.fingerprint}): copy the whole folder again, or train again."
        )
    return encoder


def _load_file(path: Path, device: torch.device, *, trained_on: str) -> Encoder:
    foreign = read_checkpoint(path)
    network = _build(foreign.architecture, False, foreign.backbone, shown(path))
    epochs = "" if foreign.epochs is None else f", {foreign.epochs} epochs"
    card = EncoderCard(
        architecture=foreign.architecture,
        small_stem=False,
        feature_dim=foreign.projection_dim,
        trained_on=trained_on,
        photos=None,
        steps=None,
        recipe=f"{'moco_v2' if foreign.has_mlp_head else 'moco_v1'}{epochs}",
        created="",
    )
    return Encoder(network, card, IMAGENET, device)


def _build(architecture: str, small_stem: bool, tensors: Mapping[str, Tensor], source: str) -> nn.Module:
    """Build the backbone around `tensors`, every one of which must match."""
    try:
        with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
            network = build_backbone(architecture, small_stem=small_stem)
    except BadRecipe as error:
        raise BadCheckpoint(f"{source} cannot be used: {error}") from None
    network.load_state_dict(match_tensors(network.state_dict(), tensors, source), assign=True)
    return network


def _read_card(path: Path) -> tuple[EncoderCard, Preprocessing, str]:
    try:
        facts = json.loads(path.read_bytes())
        if facts["format"] > FORMAT:
            raise BadCheckpoint(
                f"{shown(path)} was written by a newer mocosearch (format {facts['format']}, known up to {FORMAT}): "
                "update mocosearch."
            )
        given = facts["preprocessing"]
        mean, std = tuple(given["mean"]), tuple(given["std"])
        preprocessing = Preprocessing(given["resize"], given["crop"], mean, std)
        return EncoderCard(**facts["card"]), preprocessing, str(facts["fingerprint"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadCheckpoint(
            f"{shown(path)} is damaged ({error}): copy the whole folder again, or train again."
        ) from error


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
