"""A small untrained encoder, pictures that no two seeds give alike, and what a library has of them."""

import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.library import Library
from mocosearch.nets import build_backbone

SIZES = Preprocessing(36, 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def make_encoder(seed: int) -> Encoder:
    torch.manual_seed(seed)
    card = EncoderCard("resnet18", False, 128, "dice", 8, 0, "none", "")
    return Encoder(build_backbone("resnet18"), card, SIZES, torch.device("cpu"))


def write_photo(root: Path, name: bytes, seed: int) -> None:
    """Write a picture of colored patches that no other seed gives."""
    patches = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    path = root / os.fsdecode(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "PNG" if name.endswith(b".png") else "JPEG"
    Image.fromarray(patches).resize((64, 48), Image.Resampling.NEAREST).save(path, kind, quality=95)


def indexed(library: Library) -> set[bytes]:
    return {photo.path for photo in library.index.photos("indexed")}


def best_match(library: Library, name: bytes) -> bytes:
    with Image.open(library.root / os.fsdecode(name)) as image:
        return library.search([image.convert("RGB")], k=1)[0].photo.path
