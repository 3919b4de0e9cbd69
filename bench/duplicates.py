"""How many planted copies `mocosearch duplicates` finds, and how many of its pairs are right. A table on stdout.

python -m bench.duplicates photos --encoder run/encoder
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from PIL import Image, ImageEnhance

from bench.machine import machine_facts, markdown_facts, markdown_table
from mocosearch.duplicates.find import DuplicateReport, find_duplicates
from mocosearch.encoders import load_encoder
from mocosearch.images.walk import find_photos
from mocosearch.library import Library

TURNS = Image.Transpose
# Of other strengths than those that the threshold is measured with, saved with JPEG quality 85; "recompressed" with 60.
KINDS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "40% of the size": lambda photo: photo.resize((max(1, photo.width * 2 // 5), max(1, photo.height * 2 // 5))),
    "recompressed": lambda photo: photo,
    "cropped": lambda photo: photo.crop(
        (int(photo.width * 0.04), int(photo.height * 0.03), int(photo.width * 0.98), int(photo.height * 0.97))
    ),
    "an eighth brighter": lambda photo: ImageEnhance.Brightness(photo).enhance(1.12),
    "turned": lambda photo: photo.transpose(TURNS.ROTATE_90),
    "upside down": lambda photo: photo.transpose(TURNS.ROTATE_180),
    "mirrored": lambda photo: photo.transpose(TURNS.FLIP_LEFT_RIGHT),
    "transposed": lambda photo: photo.transpose(TURNS.TRANSPOSE),
}


@dataclass(slots=True)
class Planted:
    """What came of the planted copies."""

    planted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    wrong: int = 0  # pairs of photos of which neither is a copy of the other


def plant(photos: list[Path], folder: Path) -> Counter[str]:
    """Copy photos to a folder, and for every tenth plant a copy of the next kind; return how many of each."""
    planted: Counter[str] = Counter()
    for number, path in enumerate(photos):
        shutil.copy(path, folder / f"{number:06}{path.suffix.lower()}")
        if number % 10 == 0:
            kind = list(KINDS)[number // 10 % len(KINDS)]
            with Image.open(path) as image:
                copy = KINDS[kind](image.convert("RGB"))
            copy.save(folder / f"{number:06} {kind}.jpg", quality=60 if kind == "recompressed" else 85)
            planted[kind] += 1
    return planted


def score(report: DuplicateReport, planted: Counter[str]) -> Planted:
    """Count pairs of a keeper and a copy."""
    result = Planted(planted)
    for group in report.groups:
        keeper = Path(group.keeper.path.decode()).stem.partition(" ")
        for copy in group.copies:
            other = Path(copy.photo.path.decode()).stem.partition(" ")
            if copy.identical:
                continue  # nobody planted it: the photos hold it themselves
            if keeper[0] == other[0]:
                result.found[other[2] or keeper[2]] += 1
            else:
                result.wrong += 1
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--encoder", required=True, help="a folder, or a name that `mocosearch index` takes")
    parser.add_argument("--count", type=int, default=1500, help="photos, evenly picked")
    options = parser.parse_args()
    found = sorted(options.photos / Path(photo.path.decode()) for photo in find_photos(options.photos))
    picked = found[:: max(1, len(found) // options.count)][: options.count]
    with tempfile.TemporaryDirectory() as temporary:
        planted = plant(picked, Path(temporary))
        with Library.create(Path(temporary), load_encoder(options.encoder)) as library:
            library.update()
            report = find_duplicates(library, turned=True)
    result = score(report, planted)
    right = result.found.total()
    rows = [[kind, f"{result.found[kind]} of {count}"] for kind, count in result.planted.items()]
    rows += [
        ["all", f"{right / max(1, planted.total()):.3f}"],
        ["pairs that are right", f"{right / max(1, right + result.wrong):.3f}"],
    ]
    command = f"python -m bench.duplicates {' '.join(sys.argv[1:])}"
    print(markdown_facts({"command": command, "photos": str(len(picked)), **machine_facts(torch.device("cpu"))}))
    print(markdown_table(["copies", "found"], rows))


if __name__ == "__main__":
    main()
