"""What is searched, and how well: one change at a time to the vectors of an encoder. Markdown tables on stdout.

python -m bench.decisions --cache vectors --case tiles run/encoder eurosat/test 64

A case is a name, an encoder, a folder of class folders and the pixels of a side that the network sees. What the
network gives is kept in the folder --cache, so that a second run takes minutes.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from bench.decision_figures import FIGURES, Spread, figures, in_small_libraries, row
from bench.decision_vectors import CUTS, Float32, Photos, features
from bench.machine import machine_facts, markdown_facts, markdown_table
from mocosearch.encoders import Encoder, load_encoder
from mocosearch.evaluation.inputs import unit_vectors
from mocosearch.evaluation.labels.labelled import find_labelled
from mocosearch.nets import build_head
from mocosearch_index.records import SearchSettings
from mocosearch_index.search.projection import Projection

Rows = list[Sequence[str]]
Variant = tuple[str, Float32]  # in words, and the vectors of all pictures

_LIBRARIES = (30, 50, 100, 200, 500, 1000)  # photos
_DIMS = (512, 256, 128, 64)
_SOFT = 0.2  # the floor under the variances that is combined with other changes


def variants(folder: Path, photos: Photos, encoder: Encoder, head: torch.nn.Module | None) -> Iterator[Variant]:
    """Yield what is searched today first, then one change at a time, then changes together."""
    own = "center" if encoder.preprocessing.resize == encoder.preprocessing.crop else "7/8 of the center"
    raw = features(folder, photos, encoder, own)
    base = unit_vectors(raw)
    yield f"**{own}, {encoder.dim} numbers as the encoder makes them**", base
    if head is not None:
        with torch.inference_mode():
            yield "output of the projection head", unit_vectors(head(torch.from_numpy(raw)).numpy())
    others = {cut: unit_vectors(features(folder, photos, encoder, cut)) for cut in CUTS if cut != own}
    # A photo that is a square is whole in its center.
    cuts = {cut: vectors for cut, vectors in others.items() if not np.array_equal(vectors, base)}
    yield from cuts.items()
    flipped = unit_vectors(raw + features(folder, photos, encoder, own, mirrored=True))
    yield "averaged with the mirrored picture", flipped
    n, dims = len(photos.paths), [dim for dim in _DIMS if dim < encoder.dim]

    def spread(vectors: Float32, power: float = 0.0, floor: float = 0.0, dim: int | None = None) -> Float32:
        return unit_vectors(Spread(power, floor, dim)(vectors, vectors[:n]))

    yield "centered", spread(base)
    yield from ((f"PCA, {dim} numbers", spread(base, dim=dim)) for dim in dims)
    yield "whitened", spread(base, power=-0.5)
    yield from ((f"whitened, {dim} numbers", spread(base, power=-0.5, dim=dim)) for dim in dims)
    yield "half whitened", spread(base, power=-0.25)
    for floor in (0.001, 0.01, 0.05, 0.1, 0.2, 0.5):
        yield f"whitened with a floor of {floor}", spread(base, power=-0.5, floor=floor)
    soft = f"floor of {_SOFT}"
    yield from ((f"{soft}, {dim} numbers", spread(base, power=-0.5, floor=_SOFT, dim=dim)) for dim in dims)
    yield f"{soft}, mirrored too", spread(flipped, power=-0.5, floor=_SOFT)
    for cut, vectors in cuts.items():
        yield f"{soft}, {cut}", spread(vectors, power=-0.5, floor=_SOFT)
    projection = Projection.fit(base[:n], SearchSettings(whiten=True))
    yield "as an index searches with --whiten", projection.apply(base) if projection else base


def head_of(encoder: str) -> torch.nn.Module | None:
    """Return the projection head that was trained with an encoder, if its folder has one."""
    file = Path(encoder) / "model.safetensors"
    tensors = safetensors.torch.load_file(file) if file.exists() else {}
    state = {name.removeprefix("head."): tensor for name, tensor in tensors.items() if name.startswith("head.")}
    if not state:
        return None
    last = max(name for name in state if name.endswith("weight"))
    head = build_head("mlp" if "0.weight" in state else "linear", state[last].shape[1], len(state[last]))
    head.load_state_dict(state)
    return head


def compare(name: str, spec: str, root: Path, size: int, cache: Path, copied: int) -> tuple[str, Rows, Rows]:
    """Return a line about a case, the rows of its table, and those of libraries of few of the photos.

    Rows are also told on stderr as they come.
    """
    encoder = load_encoder(spec, torch.device("cpu"))
    labelled = find_labelled(root)
    photos = Photos.of(labelled.paths, copied)
    folder = cache / f"{name}, {size} pixels, {encoder.fingerprint}"
    seen = encoder.preprocessing
    encoder.preprocessing = replace(seen, resize=round(size * seen.resize / seen.crop), crop=size)
    rows: Rows = []
    first = base = None
    for words, vectors in variants(folder, photos, encoder, head_of(spec)):
        scored = figures(vectors, photos, labelled.labels)
        rows.append(row(words, scored, base))
        first, base = (vectors, scored) if base is None else (first, base)
        print(*rows[-1], sep="; ", file=sys.stderr, flush=True)
    assert first is not None
    sizes = [size for size in _LIBRARIES if size <= len(photos.paths)]
    few = list(in_small_libraries(first, photos, labelled.labels, Spread(power=-0.5, floor=_SOFT), sizes))
    counts = f"{len(photos.paths):,} photos of {len(labelled.classes)} classes, copies of {len(photos.copied)}"
    return f"{name}: {encoder.card.description}, {size} pixels; {counts}", rows, few


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps the vectors")
    parser.add_argument("--case", nargs=4, action="append", required=True, metavar=("NAME", "ENCODER", "DIR", "PIXELS"))
    parser.add_argument("--copied", type=int, default=300, help="photos of which copies are searched for")
    flags = parser.parse_args()
    print(f"Command: python -m bench.decisions {' '.join(sys.argv[1:])}\n")
    print(markdown_facts(machine_facts(torch.device("cpu"))))
    for name, spec, root, pixels in flags.case:
        words, rows, few = compare(name, spec, Path(root), int(pixels), flags.cache, flags.copied)
        print(f"\n{words}\n\n{markdown_table(['searched', *FIGURES], rows)}")
        print(f"\n{markdown_table([f'floor of {_SOFT}, fitted to', *FIGURES], few)}", flush=True)


if __name__ == "__main__":
    main()
