"""A generated library, and `mocosearch serve` on it in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.images.prepared import content_hash
from mocosearch.images.walk import find_photos
from mocosearch.library import Library
from mocosearch.nets import build_backbone
from mocosearch_index.records import EmbeddedPhoto

SIZE = (160, 120)  # pixels of a photo
_SCENES = 50  # pictures that are drawn; every file is another all the same
_A_FOLDER = 250
_A_COMMIT = 10_000
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def write_library(root: Path, photos: int, pixels: int = 224) -> None:
    """Write small photos into folders of `root`, and an index of them with vectors made of dice.

    The encoder is a ResNet-18 as it is before training, which sees `pixels` a side: it takes as long as a trained one.
    """
    write_photos(root, photos)
    torch.manual_seed(0)
    card = EncoderCard("resnet18", False, 512, "nothing", 0, 0, "untrained", "2026-01-01T00:00:00")
    preprocessing = Preprocessing(pixels, pixels, *_IMAGENET)
    encoder = Encoder(build_backbone("resnet18"), card, preprocessing, torch.device("cpu"))
    dice = np.random.default_rng(0)
    with Library.create(root, encoder) as library:
        found = find_photos(root)
        while stamps := list(islice(found, _A_COMMIT)):
            vectors = dice.standard_normal((len(stamps), 512), np.float32)
            hashes = (content_hash((root / stamp.path.decode()).read_bytes()) for stamp in stamps)
            library.index.commit(
                [
                    EmbeddedPhoto(stamp, digest, *SIZE, None, vector)
                    for stamp, digest, vector in zip(stamps, hashes, vectors, strict=True)
                ]
            )
        library.index.save_search_file()


def write_photos(root: Path, photos: int) -> None:
    """Write JPEG files of some kilobytes, no two alike, into folders by the hundred."""
    scenes = [_scene(np.random.default_rng(number)) for number in range(_SCENES)]
    for number in range(photos):
        path = root / f"event {number // _A_FOLDER:04}" / f"IMG_{number:06}.jpg"
        if number % _A_FOLDER == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(scenes[number % _SCENES] + b"%d" % number)  # what follows the picture no decoder reads


def _scene(dice: np.random.Generator) -> bytes:
    coarse = dice.integers(0, 255, (6, 8, 3), np.uint8)
    data = BytesIO()
    Image.fromarray(coarse).resize(SIZE, Image.Resampling.BICUBIC).save(data, "JPEG", quality=85)
    return data.getvalue()


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: `address` as http://host:port, and the number of its process."""

    address: str
    process: int


@contextmanager
def serving(root: Path, *options: str) -> Iterator[Server]:
    """Serve the library of `root` while the block runs."""
    command = [sys.executable, "-m", "mocosearch", "serve", str(root), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            sys.exit("The server did not start; what it said is above.")
        yield Server(address, process.pid)
    finally:
        process.terminate()
        process.wait()
