"""Train and score what docs/evidence.md compares; one JSON file a run in bench/evidence/results/CASE/, and for long
runs, at each size, what single photos gave.

python -m bench.evidence DATA WORK --public efficientnet_lite0.safetensors            # all that is missing: hours
python -m bench.evidence DATA WORK --public efficientnet_lite0.safetensors --only scratch-60 lightly-60
python -m bench.evidence.tables                                                       # the tables of docs/evidence.md
python -m bench.evidence.curves docs/evidence                                         # and its pictures

DATA holds eurosat.zip and grocery.zip, WORK is for photos and runs (some GB). A run that was stopped goes on where it
was; one whose JSON file is there is left out. Nothing else may run on the machine meanwhile, but for the trials, which
count CPU time. On two cores two runs may go side by side, each with `taskset -c CORE` and OMP_NUM_THREADS=1; how many
cores a run had is written down. Where the CPU computes bfloat16 natively, ours would and the others would not.
"""

import argparse
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import torch

from bench.evidence import ours, peers
from bench.evidence.cases import Case, unpack
from bench.evidence.ours import Trained
from bench.evidence.plan import PLAN, Planned
from bench.evidence.scores import keep, of_photos, scored, thinned
from bench.machine import machine_facts
from mocosearch.encoders import Encoder, EncoderCard, load_encoder, new_network, untrained_like
from mocosearch.recipes import load_recipe
from mocosearch.training.build import preprocessing_of
from mocosearch_index.atomic import atomic_write

RESULTS = Path(__file__).parent / "results"
CPU = torch.device("cpu")
_PROBED = 512  # photos of the test part, for curves over minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--public", type=Path, required=True, help="what bench.efficientnet_lite0 wrote")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[planned.name for planned in PLAN])
    flags = parser.parse_args()
    if torch.cuda.is_available():
        parser.error("all of it is measured on the CPU, peers too: set CUDA_VISIBLE_DEVICES= ")
    public = f"timm:tf_efficientnet_lite0={flags.public.absolute()}"
    for planned in PLAN:
        if (flags.only is None or planned.name in flags.only) and not result_file(planned).exists():
            print(f"== {planned.case} {planned.name}", file=sys.stderr)
            work_through(planned, unpack(planned.case, flags.data, flags.work), flags.work, public)


def result_file(planned: Planned) -> Path:
    """Return where the figures of a run are kept."""
    return RESULTS / planned.case / f"{planned.name}.json"


def photos_file(planned: Planned, pixels: int) -> Path:
    """Return where is kept what single photos gave."""
    return RESULTS / planned.case / f"{planned.name}-{pixels}.npz"


def work_through(planned: Planned, case: Case, work: Path, public: str) -> None:
    """Train, score and write down one run."""
    runs = work / "runs" / planned.case
    trained = _train(planned, case, runs, public)
    facts = {**asdict(planned), **(trained.facts if trained else {})}
    encoder = _encoder(planned, trained, public)
    figures = {}
    result_file(planned).parent.mkdir(parents=True, exist_ok=True)
    for pixels in planned.pixels:
        seen = replace(encoder.preprocessing, resize=pixels, crop=pixels)
        photos = thinned(case.photos(), gallery=4, queries=3) if planned.trial else case.photos()
        numbers = of_photos(photos, Encoder(encoder.network, encoder.card, seen, encoder.device))
        if not planned.trial:
            keep(photos_file(planned, pixels), numbers)
        figures[str(pixels)] = scored(numbers)
    facts["cores"] = len(os.sched_getaffinity(0))
    told = {"run": facts, "figures by pixels": figures, "curve": trained.curve if trained else []}
    text = json.dumps({**told, "machine": machine_facts(CPU)}, indent=1)
    atomic_write(result_file(planned), f"{text}\n".encode())
    print(json.dumps(figures), file=sys.stderr)


def _train(planned: Planned, case: Case, runs: Path, public: str) -> Trained | None:
    init = public if planned.continued else None
    match planned.kind:
        case "ours":
            if planned.trial:
                return ours.train_trial(planned, case, runs, init)
            return ours.train(planned, case, _probe(case), runs, init)
        case "lightly" | "supervised":
            return peers.train(planned, case, _probe(case), runs)
        case _:
            return None


def _encoder(planned: Planned, trained: Trained | None, public: str) -> Encoder:
    if trained:
        return load_encoder(trained.encoder, CPU)
    if planned.continued or planned.kind == "public":
        encoder = load_encoder(public, CPU)
        return encoder if planned.kind == "public" else untrained_like(encoder)
    recipe = load_recipe(planned.recipe, planned.overrides)
    card = EncoderCard(recipe.backbone.architecture, recipe.backbone.small_stem, None, "nothing", 0, 0, "none", "")
    return untrained_like(Encoder(new_network(recipe.backbone), card, preprocessing_of(recipe), CPU))


def _probe(case: Case) -> Path:
    """Link some photos of the test part into class folders of their own."""
    folder = case.folder.parent / f"{case.name}.probe"
    photos = case.photos()
    assert photos.held_out is not None
    test = photos.selected(photos.held_out.nonzero()[0]).thinned(_PROBED)
    for path in test.paths:
        link = folder / path.relative_to(case.test)
        link.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            link.hardlink_to(path)
    return folder


if __name__ == "__main__":
    main()
