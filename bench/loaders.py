"""Loaders of two augmented views at 224 pixels, each at work in a process of its own, and what that costs."""

import itertools
import os
import random
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from PIL import Image, ImageFilter

Epoch = Callable[[], Iterator[Any]]  # yields the batches of the next epoch
SIZE = 224
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """What an epoch cost."""

    images: int
    seconds: float
    cpu_seconds: float  # of the process and all below it


def mocosearch(folder: Path, cache: Path, batch: int, workers: int) -> Generator[Epoch, None, None]:
    """Photos packed in the first epoch, views of the packed ones: what `mocosearch train` does before it trains."""
    from mocosearch.images.pack import Pack
    from mocosearch.images.view_parameters import packed_short_side
    from mocosearch.images.walk import find_photos
    from mocosearch.recipes import load_recipe
    from mocosearch.training.data import ViewBatches

    recipe = load_recipe("moco_v2", [f"batch={batch}"])
    loaders: list[ViewBatches] = []

    numbers = itertools.count()

    def epoch() -> Iterator[Any]:
        if not loaders:
            pack = Pack(cache, short_side=packed_short_side(recipe.views))
            packed, _ = pack.update(folder, find_photos(folder))
            loaders.append(ViewBatches.of_recipe(pack, packed, recipe, torch.device("cpu"), workers=workers))
        steps = loaders[0].steps_per_epoch
        first = steps * next(numbers)
        return map(loaders[0], range(first, first + steps))

    yield epoch
    loaders[0].close()


def plain(folder: Path, cache: Path, batch: int, workers: int) -> Generator[Epoch, None, None]:
    """torchvision's ImageFolder with the transforms of MoCo v2, each photo decoded whenever it is used."""
    from torchvision import datasets, transforms

    jitter = transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)
    view = transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE, scale=(0.2, 1.0)),
            transforms.RandomApply([jitter], p=0.8),
            transforms.RandomGrayscale(p=0.2),
            transforms.RandomApply([_blur], p=0.5),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    yield from _torch_loader(datasets.ImageFolder(str(folder), _TwoViews(view)), batch, workers)


def lightly(folder: Path, cache: Path, batch: int, workers: int) -> Generator[Epoch, None, None]:
    """lightly's data set and its transform for MoCo v2, put together as in its documentation."""
    from lightly.data import LightlyDataset
    from lightly.transforms import MoCoV2Transform

    yield from _torch_loader(LightlyDataset(str(folder), transform=MoCoV2Transform(input_size=SIZE)), batch, workers)


LOADERS = {"mocosearch": mocosearch, "plain torchvision": plain, "lightly": lightly}


def _blur(image: Image.Image) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2.0)))


@dataclass(frozen=True)
class _TwoViews:
    view: Callable[[Image.Image], torch.Tensor]

    def __call__(self, image: Image.Image) -> list[torch.Tensor]:
        return [self.view(image), self.view(image)]


def _torch_loader(data: Any, batch: int, workers: int) -> Generator[Epoch, None, None]:
    loader = torch.utils.data.DataLoader(
        data, batch, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=workers > 0
    )
    yield lambda: iter(loader)


def costs(name: str, folder: Path, cache: Path, *, batch: int, workers: int, epochs: int) -> list[Cost]:
    """Run a loader for some epochs and return what each cost; whatever it sets up counts to its first."""
    found = []
    with closing(LOADERS[name](folder, cache, batch, workers)) as made:
        before, cpu_before = perf_counter(), _cpu_seconds(os.getpid())
        epoch = next(made)
        for _ in range(epochs):
            images = sum(batch for _ in epoch())
            now, cpu_now = perf_counter(), _cpu_seconds(os.getpid())
            found.append(Cost(images, now - before, cpu_now - cpu_before))
            before, cpu_before = now, cpu_now
        for _ in made:  # lets it tidy up
            pass
    return found


def _cpu_seconds(root: int) -> float:
    """Return the processor time of a process, of those below it and of their ended children, as Linux counts it."""
    parents, seconds = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    family, size = {root}, 0
    while len(family) > size:
        size = len(family)
        family |= {process for process, parent in parents.items() if parent in family}
    return sum(seconds[process] for process in family)
