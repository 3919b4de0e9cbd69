"""The fast linear probe, all its settings and the choice among them, against two fits of scikit-learn. One table.

python -m bench.linear_probe --features eurosat.npz --folder eurosat     # embeds the photos at the first call
python -m bench.linear_probe --photos 2000 --dim 64 --strengths 0.01,1   # generated features only, quickly
"""

import argparse
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bench.machine import machine_facts, markdown_facts, markdown_table
from mocosearch.encoders import IMAGENET, Encoder, EncoderCard, Preprocessing, load_encoder
from mocosearch.evaluation.features import embed_labelled
from mocosearch.evaluation.labels.labelled import find_labelled
from mocosearch.evaluation.linear.probe import evaluate_linear
from mocosearch.nets import build_backbone

_COLUMNS = [
    "features",
    "C",
    "iterations",
    "scikit-learn, s a fit",
    "ours, s in all",
    "ours / 2 fits",
    "scikit-learn accuracy",
    "ours",
    "points apart",
]
_CLASSES = 10


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What is learned from and scored on."""

    name: str
    vectors: NDArray[np.float32]  # (n, dim)
    labels: NDArray[np.int64]  # (n,)
    held_out: NDArray[np.bool_]  # (n,), the test part


def generated(photos: int, dim: int) -> Features:
    """Return vectors as a network gives them: rectified, of unit length, and with a few strong directions."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, _CLASSES, photos)
    causes = dim // 4
    centers = 0.25 * generator.standard_normal((_CLASSES, causes))
    strength = np.arange(1.0, causes + 1) ** -1
    active = (generator.standard_normal((photos, causes)) + centers[labels]) * strength
    vectors = np.maximum(active @ generator.standard_normal((causes, dim)) + 1, 0)
    vectors += 0.02 * generator.standard_normal((photos, dim))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Features("generated", vectors.astype(np.float32), labels, np.arange(photos) >= 0.8 * photos)


def embedded(file: Path, folder: Path | None, encoder: str | None) -> Features:
    """Read features, or make them of the photos of `folder`, which has a training and a test part, and keep them."""
    if not file.exists():
        if folder is None:
            raise SystemExit(f"{file} is not there: name a --folder of photos to make it of.")
        print(f"embedding {folder} ...", file=sys.stderr)
        made = embed_labelled(find_labelled(folder), load_encoder(encoder) if encoder else untrained())
        if made.held_out is None:
            raise SystemExit(f"{folder} has no test part: sort its photos into train/CLASS and test/CLASS.")
        np.savez(file, vectors=made.vectors, labels=made.labels, held_out=made.held_out)
    with np.load(file) as stored:
        return Features(file.stem, stored["vectors"], stored["labels"], stored["held_out"])


def untrained() -> Encoder:
    """Return a ResNet-50 that has learned nothing, at the size of satellite tiles."""
    torch.manual_seed(0)
    card = EncoderCard("resnet50", False, None, "nothing", 0, 0, "none", "")
    return Encoder(
        build_backbone("resnet50"), card, Preprocessing(64, 64, IMAGENET.mean, IMAGENET.std), torch.device("cpu")
    )


def rows(features: Features, strengths: list[float]) -> Iterator[list[str]]:
    """Take turns, a fit with each of scikit-learn's strengths C, and yield the table's rows.

    scikit-learn gets float32, standardized before its clock starts, its own solver, tolerance and threads. Ours
    starts from the vectors.
    """
    learned = ~features.held_out
    scaled = StandardScaler().fit(features.vectors[learned]).transform(features.vectors)
    for strength in strengths:
        print(f"{features.name}, C = {strength:g} ...", file=sys.stderr)
        before = perf_counter()
        outcome = evaluate_linear(features.vectors, features.labels, features.held_out)
        between = perf_counter()
        solver = LogisticRegression(C=strength, max_iter=100_000).fit(scaled[learned], features.labels[learned])
        theirs, ours = perf_counter() - between, between - before
        accuracy = solver.score(scaled[features.held_out], features.labels[features.held_out])
        [figure] = outcome.figures
        yield [
            f"{features.name}, {np.count_nonzero(learned):,} x {features.vectors.shape[1]:,}",
            f"{strength:g}",
            str(int(solver.n_iter_[0])),
            f"{theirs:.1f}",
            f"{ours:.1f}",
            f"{ours / (2 * theirs):.2f}",
            f"{accuracy:.4f}",
            f"{figure.value:.4f}",
            f"{100 * (figure.value - accuracy):+.2f}",
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, default=27_000, help="of the generated set; a fifth is scored")
    parser.add_argument("--dim", type=int, default=2048, help="of the generated set")
    parser.add_argument("--strengths", default="0.001,0.01,0.1,1", help="scikit-learn's C; 1 is its default")
    parser.add_argument("--features", type=Path, help="FILE.npz with vectors, labels and held_out, made if need be")
    parser.add_argument("--folder", type=Path, help="photos to make --features of, train/CLASS and test/CLASS")
    parser.add_argument("--encoder", help="to make --features with; else an untrained ResNet-50 at 64 pixels")
    options = parser.parse_args()
    facts = markdown_facts(machine_facts(torch.device("cpu")))
    print(f"Command: python -m bench.linear_probe {shlex.join(sys.argv[1:])}\n\n{facts}\n")
    strengths = [float(strength) for strength in options.strengths.split(",")]
    sets = [embedded(options.features, options.folder, options.encoder)] if options.features else []
    sets.append(generated(options.photos, options.dim))
    print(markdown_table(_COLUMNS, [row for features in sets for row in rows(features, strengths)]))


if __name__ == "__main__":
    main()
