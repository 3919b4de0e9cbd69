"""The whole path on real images in a few minutes: train, index, score. Serving is the page's business.

The demo lives in one folder of its own. It becomes nobody's current encoder and nobody's library.
"""

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch.encoders import load_encoder
from mocosearch.evaluation.features import embed_folder
from mocosearch.evaluation.health import label_free_health
from mocosearch.evaluation.knn import SHOWN, evaluate_knn
from mocosearch.library import Library, Progress
from mocosearch.recipes import load_recipe
from mocosearch.training.packs import CountCallback
from mocosearch.training.prepare import new_run
from mocosearch.training.run import Run

_LABELLED = (
    "kNN accuracy: how often the nearest neighbors of a tile vote for its class. "
    f"precision@{SHOWN}: the share of its {SHOWN} nearest that have its class."
)
_HEALTH = (
    "Without labels nobody can say how good an encoder is, only whether it is sound: the effective rank says how many "
    "independent directions its vectors use (more is better), uniformity how evenly they cover the sphere (lower is "
    "better), feature spread how much they differ at all (0: collapsed)."
)


@dataclass(frozen=True)
class Row:
    """One line of the demo's table: figures of one encoder."""

    name: str
    figures: Sequence[float]


@dataclass(frozen=True)
class Score:
    """The demo's table; with labels kNN accuracy and precision@10, without them label-free health."""

    columns: Sequence[str]
    rows: Sequence[Row]
    explanation: str


def unpack_sample(folder: Path) -> Path:
    """Write the 2,000 satellite tiles that come with mocosearch, and their license, below `folder`."""
    tiles = folder / "tiles"
    with (
        as_file(files("mocosearch") / "sample" / "eurosat_tiles.zip") as path,
        zipfile.ZipFile(path) as archive,
    ):
        archive.extractall(tiles)
    return tiles


def prepare(
    folder: Path, photos: Path | None, *, minutes: float, on_photo: CountCallback, on_measuring: Callable[[], None]
) -> Run:
    """Make a run on the tiles, or on `photos`, with everything it writes below `folder`."""
    name = "demo" if photos is None else "moco_v2_small"
    return new_run(
        unpack_sample(folder) if photos is None else photos,
        load_recipe(name),
        recipe_name=name,
        folder=folder / "run",
        minutes=minutes,
        pack_folder=folder / "pack",
        on_photo=on_photo,
        on_measuring=on_measuring,
    )


def index(run: Run, folder: Path, *, progress: Callable[[Progress], None] | None = None) -> Library:
    """Index the run's photos with its finished encoder, in `folder` rather than beside the photos."""
    library = Library.create(run.root, load_encoder(run.folder.encoder), index_dir=folder)
    library.update(progress=progress)
    return library


def score(library: Library, untrained: Path, *, labelled: bool) -> Score:
    """Compare the library's encoder with the untrained one on the photos of the library.

    `labelled`: the folder of a photo is its class, and chance is a third row.
    """
    ids, stored = library.index.all_vectors()
    relative = [library.index.photo(int(id)).path for id in ids]
    paths = [library.original(int(id)) for id in ids]
    before = embed_folder(paths, load_encoder(untrained))
    vectors = {"untrained": before.vectors, "trained": stored.astype(np.float32)}
    if not labelled:
        health = {name: label_free_health(vector) for name, vector in vectors.items()}
        columns = ("effective rank", "uniformity", "feature spread")
        rows = [Row(name, (h.effective_rank, h.uniformity, h.feature_spread)) for name, h in health.items()]
        return Score(columns, rows, _HEALTH)
    labels = _labels(relative)
    figures = {name: evaluate_knn(vector, labels).figures for name, vector in vectors.items()}
    rows = [Row(name, [figure.value for figure in found]) for name, found in figures.items()]
    rows.append(Row("chance", [figure.chance or 0.0 for figure in figures["trained"]]))
    return Score([figure.name for figure in figures["trained"]], rows, _LABELLED)


def _labels(paths: Sequence[bytes]) -> NDArray[np.int64]:
    folders = [path.rpartition(b"/")[0] for path in paths]
    _, labels = np.unique(folders, return_inverse=True)
    return labels.astype(np.int64)
