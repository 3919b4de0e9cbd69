"""The collections that encoders are trained on without labels and scored on with them."""

import csv
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from mocosearch.evaluation.labels.labelled import LabelledPhotos, find_labelled

Assigned = Iterator[tuple[zipfile.ZipInfo, str]]  # a photo, and where it goes: train/CLASS/NAME or test/CLASS/NAME
_TEST_OF = 5  # one grocery photo in five is of the test part


@dataclass(frozen=True)
class Case:
    """A collection below `folder`: train/ is trained on, and is the gallery in which photos of test/ are sought."""

    name: str
    folder: Path

    @property
    def train(self) -> Path:
        """Return the folder of the photos that are trained on; their class folders are not looked at for it."""
        return self.folder / "train"

    @property
    def test(self) -> Path:
        """Return the folder of the other photos."""
        return self.folder / "test"

    def photos(self) -> LabelledPhotos:
        """Find all photos, their classes and parts."""
        return find_labelled(self.folder)


def unpack(name: str, data: Path, work: Path) -> Case:
    """Sort the photos of DATA/NAME.zip into train/ and test/ below WORK/NAME, unless that is done already."""
    folder = work / name
    if not folder.exists():
        work.mkdir(parents=True, exist_ok=True)
        with (
            TemporaryDirectory(prefix=f"{name}.", dir=work) as partial,
            zipfile.ZipFile(data / f"{name}.zip") as archive,
        ):
            for photo, place in _CASES[name](archive):
                path = Path(partial, name, place)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(photo))
            try:
                Path(partial, name).rename(folder)
            except OSError:
                if not folder.exists():  # else another run was first
                    raise
    return Case(name, folder)


def _eurosat(archive: zipfile.ZipFile) -> Assigned:
    """Split the tiles as split.csv in the archive says."""
    files = {entry.filename: entry for entry in archive.infolist()}
    (table,) = (name for name in files if name.endswith("split.csv"))
    top = table.removesuffix("split.csv")
    for row in csv.DictReader(archive.read(table).decode().splitlines()):
        yield files[f"{top}{row['path']}"], f"{row['split']}/{row['path']}"


def _grocery(archive: zipfile.ZipFile) -> Assigned:
    """Split the photos by a hash of their names; the class is the folder that holds them, of 81 kinds."""
    for entry in archive.infolist():
        path = PurePosixPath(entry.filename)
        if path.suffix == ".jpg":
            part = "train" if zlib.crc32(path.name.encode()) % _TEST_OF else "test"
            yield entry, f"{part}/{path.parent.name}/{path.name}"


_CASES: dict[str, Callable[[zipfile.ZipFile], Assigned]] = {"eurosat": _eurosat, "grocery": _grocery}
