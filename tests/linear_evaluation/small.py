"""A small labelled set, and a small network with a normalization of its own."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.evaluation.labels.labelled import LabelledPhotos

CPU = torch.device("cpu")
CARD = EncoderCard("resnet18", True, None, "generated", None, None, "made by hand", "")
PREPROCESSING = Preprocessing(resize=18, crop=16, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.25))
BATCH = 8


class Pooled(nn.Module):
    """(B, 3, H, W) -> (B, 6): a convolution, a batch norm that has seen other images, and global average pooling."""

    feature_dim = 6

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.conv = nn.Conv2d(3, self.feature_dim, 3, padding=1)
        self.norm = nn.BatchNorm2d(self.feature_dim)
        for tensor in (self.conv.weight, self.conv.bias, self.norm.running_mean):
            nn.init.normal_(tensor, std=0.3, generator=generator)
        nn.init.uniform_(self.norm.running_var, 0.5, 2, generator=generator)

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.norm(self.conv(images)).relu().mean(dim=(2, 3))
        return pooled


def encoder_of(network: nn.Module | None = None) -> Encoder:
    return Encoder(network or Pooled(), CARD, PREPROCESSING, CPU)


def write_classes(root: Path, *, train: int, test: int) -> LabelledPhotos:
    """Write photos of three classes of different colors: `train` to learn from and `test` to be scored on, of each."""
    generator = np.random.default_rng(0)
    colors = np.array([(200, 60, 60), (60, 200, 60), (60, 60, 200)])
    paths = []
    for name, color in enumerate(colors):
        (root / f"class-{name}").mkdir(parents=True)
        for number in range(train + test):
            coarse = np.clip(color + generator.normal(0, 60, (4, 5, 3)), 0, 255).astype(np.uint8)
            size = (30 + 2 * number % 7, 24 + number % 5)
            path = root / f"class-{name}" / f"{number:02}.png"
            Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(path)
            paths.append(path)
    labels = np.repeat(np.arange(3), train + test)
    held_out = np.tile(np.arange(train + test) >= train, 3)
    return LabelledPhotos(root, paths, labels, ["class-0", "class-1", "class-2"], held_out)
