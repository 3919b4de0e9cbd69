"""The parts of gpu_check.py; each prints its rows as it finds them. Run by gpu_check, one process a part."""

import argparse
import gc
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from PIL import Image

from bench.contestants import Case, ceiling, mocosearch
from bench.machine import machine_facts
from bench.train_step import measure, ratio, seconds
from mocosearch.devices import best_device
from mocosearch.encoders import load_encoder
from mocosearch.errors import Interrupted
from mocosearch.evaluation.features import embed_labelled
from mocosearch.evaluation.knn import chance_accuracy, evaluate_knn
from mocosearch.evaluation.labels.labelled import find_labelled
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training.build import build_method
from mocosearch.training.prepare import new_run, resumed_run
from mocosearch.training.run import Run
from mocosearch.training.run_folder import RunFolder
from mocosearch.training.trainer import StepReport, Trainee

Row = tuple[str, str]  # what, result


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    case: Case
    batches: tuple[int, ...]  # of the step part; the first one with one batch-norm group as well
    rounds: int
    repeat: int  # steps of each contestant in a round
    photos: int  # generated, for the packed part
    photo_size: tuple[int, int]
    packed_steps: int
    packed: tuple[str, ...]  # overrides of moco_v2
    tiles: tuple[str, ...]  # overrides of the demo's recipe
    minutes: float | None  # on the tiles
    tiles_kept: int
    parity_cases: tuple[str, ...] = ("v1_1rank", "v2_1rank", "v1_2rank", "v2_2rank")
    parity_steps: int = 6
    resumed_steps: int = 12
    workers: int | None = None  # that read photos; None: as `mocosearch train` chooses


FULL = Sizes(
    case=Case("resnet50-224", "resnet50", 224, batch=256, keys=65536, groups=8),
    batches=(256, 512, 1024),
    rounds=5,
    repeat=4,
    photos=4096,
    photo_size=(800, 600),
    packed_steps=60,
    packed=(),
    tiles=("backbone.architecture=resnet18",),  # without timm, which a bare machine lacks
    minutes=0.75,
    tiles_kept=2000,
)
TINY = Sizes(
    case=Case("tiny", "resnet18", 32, batch=8, keys=64, groups=2),
    batches=(8,),
    rounds=1,
    repeat=1,
    photos=16,
    photo_size=(80, 60),
    packed_steps=4,
    packed=("backbone.architecture=resnet18", "views.crop=32", "batch=8", "encoder_input.crop=32"),
    tiles=("backbone.architecture=resnet18", "batch=8", "schedule.epochs=1", "encoder_input.crop=32", "views.crop=16"),
    minutes=None,
    tiles_kept=60,
    parity_cases=("v2_2rank",),
    parity_steps=1,
    resumed_steps=5,
    workers=0,
)


def machine(sizes: Sizes, scratch: Path) -> Iterator[Row]:
    """What this runs on."""
    yield from machine_facts(best_device()).items()
    free, total = os.statvfs(scratch), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield "memory, free disk", f"{total / 2**30:.0f} GiB, {free.f_bavail * free.f_frsize / 2**30:.0f} GiB"


def step(sizes: Sizes, scratch: Path) -> Iterator[Row]:
    """Images/s of a training step on synthetic views, beside the bare ceiling; peak memory."""
    first = replace(sizes.case, batch=sizes.batches[0])
    for case in (*(replace(first, batch=batch) for batch in sizes.batches), replace(first, groups=1)):
        yield from _measured(case, sizes, compiled=False)
    torch.backends.cudnn.benchmark = True
    for what, result in _measured(first, sizes, compiled=False):
        yield f"{what}, cudnn.benchmark", result


def compiled(sizes: Sizes, scratch: Path) -> Iterator[Row]:
    """The same with torch.compile; the ceiling beside it is not compiled."""
    first = replace(sizes.case, batch=sizes.batches[0])
    for case in (replace(first, groups=1), first):
        yield from _measured(case, sizes, compiled=True)


def _measured(case: Case, sizes: Sizes, *, compiled: bool) -> Iterator[Row]:
    device = best_device()
    name = f"{case.architecture} at {case.size}, batch {case.batch}, {case.groups} groups{', compiled' * compiled}"
    torch.compiler.reset()  # else the second case is compiled for any batch
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    before = perf_counter()
    ours = mocosearch(case, device, compiled=compiled)
    seconds(ours, device, 1)
    first = perf_counter() - before  # seconds until the first step is done
    peak = f", peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if device.type == "cuda" else ""
    taken = measure({"ceiling": ceiling(case, device), "ours": ours}, device, rounds=sizes.rounds, repeat=sizes.repeat)
    each = statistics.median(taken["ours"])
    times = ratio(taken["ours"], taken["ceiling"])
    yield name, f"{case.batch / each:.0f} images/s, {1000 * each:.1f} ms, {times} x ceiling{peak}, first {first:.1f} s"


def packed(sizes: Sizes, scratch: Path) -> Iterator[Row]:
    """Training through the whole loop, from generated photos that were packed first."""
    folder = scratch / "photos"
    folder.mkdir()
    before = perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda number: _write_photo(folder, number, sizes.photo_size), range(sizes.photos)))
    written = perf_counter()
    yield "photos generated", f"{sizes.photos} of {sizes.photo_size}, {written - before:.1f} s"
    recipe = load_recipe("moco_v2", sizes.packed)
    run = _new_run(folder, recipe, scratch / "packed", sizes, steps=sizes.packed_steps)
    yield "found and packed", f"{run.photos / (perf_counter() - written):.0f} photos/s; {'; '.join(run.notices)}"
    reports: list[StepReport] = []
    before = perf_counter()
    run.train(on_step=reports.append)
    steady = reports[len(reports) // 4 :]  # the first ones warm up
    each = statistics.median(report.seconds for report in steady)
    waited = sum(report.waited for report in steady) / sum(report.seconds for report in steady)
    yield (
        f"{recipe.backbone.architecture} at {recipe.views.crop}, batch {run.recipe.batch}, through the loader",
        f"{run.recipe.batch / each:.0f} images/s, {1000 * each:.1f} ms, waits {waited:.1%}; "
        f"{len(reports)} steps, health, checkpoints and all: {perf_counter() - before:.1f} s",
    )


def _write_photo(folder: Path, number: int, size: tuple[int, int]) -> None:
    coarse = np.random.default_rng(number).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(folder / f"{number:05}.jpg", quality=90)


def _new_run(
    photos: Path, recipe: Recipe, folder: Path, sizes: Sizes, *, steps: int | None = None, minutes: float | None = None
) -> Run:
    return new_run(
        photos,
        recipe,
        recipe_name="check",
        folder=folder,
        minutes=minutes,
        steps=steps,
        pack_folder=folder.with_name(f"{photos.name}-pack"),
        workers=sizes.workers,
    )


def _tiles(scratch: Path, kept: int) -> Path:
    """Unpack every n-th of the shipped tiles."""
    with as_file(files("mocosearch") / "sample" / "eurosat_tiles.zip") as path, zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith((".jpg", ".png"))]
        archive.extractall(scratch / "tiles", names[:: max(1, len(names) // kept)])
    return scratch / "tiles"


def tiles(sizes: Sizes, scratch: Path) -> Iterator[Row]:
    """A short run on the shipped tiles, with kNN accuracy before and after."""
    root = _tiles(scratch, sizes.tiles_kept)
    run = _new_run(root, load_recipe("demo", sizes.tiles), scratch / "short", sizes, minutes=sizes.minutes)
    run.save_encoder(build_method(run.recipe, torch.device("cpu"), photos=run.photos), scratch / "untrained", steps=0)
    before = _knn(root, scratch / "untrained")
    started = perf_counter()
    encoder = run.train(on_step=lambda report: None)
    minutes = (perf_counter() - started) / 60
    labels = find_labelled(root).labels
    yield (
        f"kNN on {run.photos} tiles",
        f"{before:.3f} untrained, {_knn(root, encoder):.3f} after {run.total_steps} steps in {minutes:.1f} minutes; "
        f"chance {chance_accuracy(labels):.3f}",
    )


def _knn(root: Path, encoder: Path) -> float:
    features = embed_labelled(find_labelled(root), load_encoder(encoder))
    return evaluate_knn(features.vectors, features.labels).figures[0].value


def parity(sizes: Sizes, scratch: Path) -> Iterator[Row]:
    """The losses of the authors' implementation, moco_parity.json, in float64 on this device."""
    from tests.methods import reference

    device = best_device()
    for name in sizes.parity_cases:
        expected = reference.CASES[name]
        method = reference.reference_method(name[:2], groups=len(expected)).to(device)
        trainee = Trainee(method, reference.reference_optimizer(method), autocast=None)
        losses = [
            float(trainee.step([view.to(device) for view in reference.views(number)], torch.arange(reference.BATCH))[0])
            for number in range(sizes.parity_steps)
        ]
        wanted = np.mean([rank["losses"][: sizes.parity_steps] for rank in expected], axis=0)
        error = np.abs(np.array(losses) / wanted - 1).max()
        yield f"{name}, {len(expected)} groups", f"largest relative error of a loss {error:.1e}"
        assert error < 1e-9


_KILLED = """
import json, os, signal, sys
from pathlib import Path
from mocosearch.training import prepare, run
def on_step(report):
    if report.step == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    run.CHECKPOINT_SECONDS = 0.0  # after every step
    prepare.resumed_run(Path(sys.argv[1]), workers=json.loads(sys.argv[2])).train(on_step=on_step)
"""


def resume(sizes: Sizes, scratch: Path) -> Iterator[Row]:
    """A run stopped, killed with -9 and resumed, against one that was left alone."""
    root, steps = _tiles(scratch, min(256, sizes.tiles_kept)), sizes.resumed_steps
    recipe, folder = load_recipe("demo", sizes.tiles), scratch / "killed"
    _new_run(root, recipe, scratch / "straight", sizes, steps=steps).train(on_step=lambda report: None)
    count = itertools.count(1)
    with suppress(Interrupted):
        stopped = _new_run(root, recipe, folder, sizes, steps=steps)
        stopped.train(on_step=lambda report: None, stop=lambda: next(count) == 2)
    killed = [sys.executable, "-c", _KILLED, str(folder), json.dumps(sizes.workers), str(steps - 1)]
    assert subprocess.run(killed, check=False).returncode == -signal.SIGKILL
    assert len(_losses(folder)) == steps - 1
    resumed_run(folder, workers=sizes.workers).train(on_step=lambda report: None)
    pairs = zip(_losses(scratch / "straight"), _losses(folder), strict=True)
    largest = max(abs(straight - resumed) for straight, resumed in pairs)
    same = "bit for bit the losses of a run left alone" if largest == 0 else f"losses differ by at most {largest:.1e}"
    yield f"stopped at step 2, killed with -9 at step {steps - 1}, resumed to step {steps}", same


def _losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in RunFolder(folder).metrics.read_text().splitlines()]


PARTS: dict[str, Callable[[Sizes, Path], Iterator[Row]]] = {
    part.__name__: part for part in (machine, step, packed, tiles, parity, resume, compiled)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("rows", type=Path, help="file that gets a line of JSON for every row")
    parser.add_argument("scratch", type=Path, help="folder for what the part makes")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    scratch = options.scratch / options.part
    scratch.mkdir()
    with options.rows.open("w") as file:
        for what, result in PARTS[options.part](TINY if options.dry_run else FULL, scratch):
            print(f"{what}: {result}", flush=True)
            file.write(json.dumps({"what": what, "result": result}) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
