"""Batches are a function of the step, whoever makes them: the trainer or any number of workers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from mocosearch.errors import LoaderFailed
from mocosearch.images.pack import Pack
from mocosearch.images.packed import PackedPhoto
from mocosearch.images.view_parameters import packed_short_side
from mocosearch.images.walk import find_photos
from mocosearch.training.batch_order import Crops
from mocosearch.training.data import ViewBatches
from mocosearch.training.loader import Loader
from tests.processes import are_gone, libraries_of, spawned_by
from tests.training.photos import load_tiny_recipe, write_photos

CPU = torch.device("cpu")
RECIPE = load_tiny_recipe()
Packed = tuple[Pack, list[PackedPhoto]]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("packed")
    write_photos(folder)
    pack = Pack(folder / "pack", short_side=packed_short_side(RECIPE.views))
    return pack, pack.update(folder, find_photos(folder))[0]


@pytest.fixture(scope="module")
def prepared(packed: Packed) -> Iterator[ViewBatches]:
    """Batches that two workers prepare: starting them takes longer than all that is asked of them."""
    with closing(ViewBatches.of_recipe(*packed, RECIPE, CPU, workers=2)) as batches:
        batches.start()
        yield batches
    assert not children()


def children() -> list[int]:
    return spawned_by(os.getpid())


def copied(batches: ViewBatches, steps: range) -> Iterator[tuple[torch.Tensor, ...]]:
    for step in steps:
        views, ids = batches(step)
        yield (*(view.clone() for view in views), ids)


def test_signals_from_their_first_moment_on_are_left_to_the_main_process(prepared: ViewBatches) -> None:
    assert len(children()) == 2
    for child in children():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(child, number)
    for step in range(5):
        prepared(step)


def test_workers_give_the_batches_of_the_main_process_bit_for_bit(packed: Packed, prepared: ViewBatches) -> None:
    expected = list(copied(ViewBatches.of_recipe(*packed, RECIPE, CPU), range(8)))
    for steps in (range(8), range(2, 5), range(7, 8), range(7, 8), range(3)):  # also jumps, as a resume does
        for step, got in zip(steps, copied(prepared, steps), strict=True):
            for ours, theirs in zip(got, expected[step], strict=True):
                assert torch.equal(ours, theirs), step


def test_a_worker_imports_none_of_the_heavy_packages_but_torch(prepared: ViewBatches) -> None:
    prepared(0)
    for worker in children():
        mapped = libraries_of(worker)
        assert any(name.startswith("libtorch") for name in mapped)
        for package in ("faiss", "_imaging", "pi_heif", "torchvision"):
            assert not any(package in name for name in mapped), package


def test_views_do_not_depend_on_the_number_of_threads(packed: Packed) -> None:
    inline, threads = ViewBatches.of_recipe(*packed, RECIPE, CPU), torch.get_num_threads()
    views = []
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            views.append(next(copied(inline, range(1))))
            assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(*views, strict=True):
        assert torch.equal(one, other)


def test_an_epoch_takes_every_photo_once_and_each_epoch_anew(packed: Packed) -> None:
    batches = ViewBatches.of_recipe(*packed, RECIPE, CPU)
    epochs = [
        torch.cat([batches(step)[1] for step in range(first, first + batches.steps_per_epoch)]) for first in (0, 3)
    ]
    for ids in epochs:
        assert sorted(ids.tolist()) == list(range(24))
    assert not torch.equal(*epochs)


def test_what_a_gpu_is_given_are_the_crops_one_after_the_other(packed: Packed) -> None:
    pack, _ = packed
    batches = ViewBatches.of_recipe(*packed, RECIPE, CPU)
    crops = Crops(pack.pixels_path, batches.order)
    loader = Loader(crops.write_all, crops.most_bytes(), workers=1)
    loader.start()
    try:
        for step in range(3):
            expected = [crop.ravel() for drawn in batches.order.parameters(step) for crop in crops.of_view(step, drawn)]
            assert np.array_equal(loader(step)[: sum(map(len, expected))], np.concatenate(expected))
    finally:
        loader.close()


def test_a_killed_worker_is_one_readable_error(packed: Packed) -> None:
    others = set(children())
    with closing(ViewBatches.of_recipe(*packed, RECIPE, CPU, workers=2)) as batches:
        batches(0)
        os.kill(min(set(children()) - others), signal.SIGKILL)
        with pytest.raises(LoaderFailed, match=r"was killed by SIGKILL: continue .* --resume"):
            list(copied(batches, range(1, 9)))
    assert set(children()) == others


PROCESS = """
import json, os, sys
from contextlib import closing
from pathlib import Path
import torch
from mocosearch.images.pack import Pack
from mocosearch.images.view_parameters import packed_short_side
from mocosearch.images.walk import find_photos
from mocosearch.training.data import ViewBatches
from tests.training.photos import load_tiny_recipe
from tests.processes import spawned_by

def used(process):
    files = len(os.listdir(f"/proc/{process}/fd"))
    return files, os.sysconf("SC_PAGE_SIZE") * int(Path(f"/proc/{process}/statm").read_text().split()[1])

if __name__ == "__main__":
    recipe = load_tiny_recipe()
    pack = Pack(Path(sys.argv[1]), short_side=packed_short_side(recipe.views))
    photos, _ = pack.update(Path(sys.argv[2]), find_photos(Path(sys.argv[2])))
    with closing(ViewBatches.of_recipe(pack, photos, recipe, torch.device("cpu"), workers=2)) as batches:
        batches.start()
        family = [os.getpid(), *spawned_by(os.getpid())]
        for step in range(int(sys.argv[3])):
            batches(step)
            if step % 30 == 29:
                files, memory = zip(*map(used, family))
                print(json.dumps([files, sum(memory)]), flush=True)
"""


def run_process(folder: Path, photos: Path, steps: int) -> "subprocess.Popen[str]":
    script = folder / "script.py"
    script.write_text(PROCESS)
    command = [sys.executable, script, folder / "pack", photos, str(steps)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_many_epochs_of_a_small_set_open_no_more_files_and_take_no_more_memory(photos: Path, tmp_path: Path) -> None:
    out, _ = run_process(tmp_path, photos, 240).communicate(timeout=250)
    files, memory = zip(*map(json.loads, out.splitlines()), strict=True)
    assert len(files) == 8  # 80 epochs
    assert all(count == files[0] for count in files)
    assert memory[-1] - memory[1] < 3 << 20  # 180 batches of 49 kB, kept, would be 9 MB


def test_workers_end_when_the_main_process_is_killed(photos: Path, tmp_path: Path) -> None:
    process = run_process(tmp_path, photos, 10**9)
    assert process.stdout is not None
    process.stdout.readline()
    workers = spawned_by(process.pid)
    assert len(workers) == 2
    process.kill()
    process.wait()
    assert are_gone(workers, within=30)
    process.stdout.close()
