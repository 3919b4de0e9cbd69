"""What is known of an encoder beside its weights: its card, how a photo is prepared for it, its fingerprint."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mocosearch.encoders.checkpoint_formats import is_batch_count
from mocosearch.errors import BadCheckpoint
from mocosearch.images.views import IMAGENET_MEAN, IMAGENET_STD
from mocosearch_index.paths import printable

FORMAT = 1


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

    architecture: str  # a torchvision ResNet, or timm:NAME
    small_stem: bool
    feature_dim: int | None  # length of the projection that the loss was computed on
    trained_on: str  # a folder or the name of a data set
    photos: int | None
    steps: int | None
    recipe: str
    created: str  # ISO 8601, or empty
    stem_padding: int = 1  # of a small stem, see `nets.build_backbone`
    stem_relu: bool = True

    @property
    def description(self) -> str:
        """One line that is safe to print."""
        if self.steps == 0:
            return f"{self.architecture}, untrained"
        photos = "" if self.photos is None else f"{self.photos:,} photos of "
        steps = "" if self.steps is None else f", {self.steps:,} steps"
        line = f"{self.architecture} trained on {photos}{self.trained_on} ({self.recipe}{steps})"
        return printable(os.fsencode(line))


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """All that stands beside the tensors in a file of ours; JSON in `encoder.json` and in exported safetensors."""

    card: EncoderCard
    preprocessing: Preprocessing
    fingerprint: str

    def to_json(self) -> str:
        """Return ASCII: a path that is not UTF-8 survives as escaped surrogates."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes, source: str) -> "EncoderFacts":
        """Read what `to_json` wrote; BadCheckpoint, which names `source`, when it is damaged or of a newer format."""
        try:
            facts = json.loads(text)
            if facts["format"] > FORMAT:
                raise BadCheckpoint(
                    f"{source} was written by a newer mocosearch (format {facts['format']}, known up to {FORMAT}): "
                    "update mocosearch."
                )
            given = facts["preprocessing"]
            mean, std = tuple(given["mean"]), tuple(given["std"])
            preprocessing = Preprocessing(given["resize"], given["crop"], mean, std)
            return cls(EncoderCard(**facts["card"]), preprocessing, str(facts["fingerprint"]))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise BadCheckpoint(f"{source} is damaged ({error}): copy it again, or train again.") from error


def fingerprint(backbone: Mapping[str, Tensor], preprocessing: Preprocessing) -> str:
    """Return 16 hex digits of a hash of all that decides a vector: names, types, shapes, bytes and preprocessing."""
    digest = hashlib.sha256(json.dumps(asdict(preprocessing), sort_keys=True).encode())
    for name in sorted(backbone):
        if not is_batch_count(name):
            tensor = backbone[name].detach().cpu().contiguous()
            digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]
