"""What is known of an encoder beside its weights: its card, how a photo is prepared for it, its fingerprint."""

import hashlib
import json
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import torch
from PIL import Image
from torch import Tensor

from mocosearch import imagenet
from mocosearch.encoders.checkpoint_formats import is_batch_count
from mocosearch.errors import BadCheckpoint
from mocosearch.images.geometry import Geometry
from mocosearch_index.paths import printable

FORMAT = 1
_LARGEST_SIDE = 8192  # pixels of a network's input
_MOST_STEM_PADDING = 3


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How a photo becomes input: short side to `resize` (bicubic, antialiased), center crop, normalize."""

    resize: int  # pixels
    crop: int  # pixels, at most `resize`
    mean: tuple[float, float, float]  # RGB, of values in [0, 1]
    std: tuple[float, float, float]

    def __post_init__(self) -> None:
        if not (type(self.resize) is type(self.crop) is int and 1 <= self.crop <= self.resize <= _LARGEST_SIDE):
            raise ValueError(f"crop {self.crop} is not in 1 .. resize {self.resize} .. {_LARGEST_SIDE}")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) != 3 or not all(type(value) in (float, int) and math.isfinite(value) for value in values):
                raise ValueError(f"{name} {values} is not three finite numbers")
        if min(self.std) <= 0:
            raise ValueError(f"std {self.std} is not above 0")

    @property
    def geometry(self) -> Geometry:
        """What of this is done before torch is needed."""
        return Geometry(self.resize, self.crop)

    def prepare(self, image: Image.Image) -> Tensor:
        """Cut a picture (RGB, any size) to what the network sees: uint8 (3, crop, crop)."""
        return torch.from_numpy(self.geometry.cut(image)).permute(2, 0, 1)


IMAGENET = Preprocessing(resize=256, crop=224, mean=imagenet.MEAN, std=imagenet.STD)


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

    def __post_init__(self) -> None:
        for field in fields(self):
            value, kind = getattr(self, field.name), field.type
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):  # type: ignore[arg-type]
                raise TypeError(f"{field.name} is {value!r}")
            if isinstance(value, str):
                os.fsencode(value)  # a ValueError, unless it can be a path
            elif isinstance(value, int) and value < 0:
                raise ValueError(f"{field.name} is {value}")
        if not self.architecture.isprintable() or self.stem_padding > _MOST_STEM_PADDING:
            raise ValueError(f"there is no {self.architecture!r} with a stem padded by {self.stem_padding}")

    @property
    def description(self) -> str:
        """One line that is safe to print."""
        if self.steps == 0:
            return f"{self.architecture}, untrained"
        photos = "" if self.photos is None else f"{self.photos:,} photos of "
        steps = "" if self.steps is None else f", {self.steps:,} step{'s' * (self.steps != 1)}"
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
        facts = {"format": FORMAT, **asdict(self)}
        return json.dumps({**facts, "checksum": _checksum(facts)}, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes, source: str) -> "EncoderFacts":
        """Read what `to_json` wrote; BadCheckpoint, which names `source`, when it is damaged or of a newer format."""
        try:
            facts = json.loads(text)
            if type(facts["format"]) is not int or facts["format"] < 1:
                raise ValueError(f"its format is {facts['format']!r}")
            if facts["format"] > FORMAT:
                raise BadCheckpoint(
                    f"{source} was written by a newer mocosearch (format {facts['format']}, known up to {FORMAT}): "
                    "update mocosearch."
                )
            stated = facts.pop("checksum", None)  # older versions wrote none
            if stated not in (None, _checksum(facts)):
                raise ValueError("it fails its checksum")
            given = facts["preprocessing"]
            mean, std = tuple(given["mean"]), tuple(given["std"])
            preprocessing = Preprocessing(given["resize"], given["crop"], mean, std)
            return cls(EncoderCard(**facts["card"]), preprocessing, str(facts["fingerprint"]))
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            cause = printable(str(error).encode(errors="replace"))[:200]
            raise BadCheckpoint(f"{source} is damaged ({cause}): copy it again, or train again.") from error


def _checksum(facts: Mapping[str, object]) -> int:
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())


def fingerprint(backbone: Mapping[str, Tensor], preprocessing: Preprocessing, card: EncoderCard) -> str:
    """Return 16 hex digits of a hash of all that decides a vector.

    That is names, types, shapes and bytes of the tensors, the preprocessing, and a stem that is not torchvision's.
    """
    stem = {name: getattr(card, name) for name in ("stem_padding", "stem_relu")}
    decisive = asdict(preprocessing) | (stem if stem != {"stem_padding": 1, "stem_relu": True} else {})
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode())
    for name in sorted(backbone):
        if not is_batch_count(name):
            tensor = backbone[name].detach().cpu().contiguous()
            digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]
