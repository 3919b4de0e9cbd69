"""Making a run ready: find and pack the photos, fit the recipe to them, turn minutes into steps; or read it back."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from uuid import uuid4

import torch

from mocosearch import __version__
from mocosearch.devices import autocast_dtype, best_device, precision_name
from mocosearch.distributed import mean_over_ranks, on_first_rank, world_size
from mocosearch.encoders import Encoder
from mocosearch.errors import BadCheckpoint, BadDevices, NoPhotos, NotLabelled
from mocosearch.images.pack import Pack, UnpackedPhoto, is_unchanged
from mocosearch.images.packed import PackedPhoto
from mocosearch.images.view_parameters import packed_short_side
from mocosearch.images.walk import find_photos
from mocosearch.recipes import Recipe
from mocosearch.training.build import build_method, build_optimizer, preprocessing_of
from mocosearch.training.compilation import can_compile, compile_networks
from mocosearch.training.data import ViewBatches, default_workers
from mocosearch.training.fit import FEWEST_PER_RANK, check_sizes, continued, fit_to_collection, fit_to_photos
from mocosearch.training.monitor import SHARE, Probe
from mocosearch.training.packs import CountCallback, default_pack_folder, open_packed, pack_photos
from mocosearch.training.run import Run
from mocosearch.training.run_folder import RunFacts, RunFolder, RunOptions, make_unused
from mocosearch.training.tensorboard import check_tensorboard
from mocosearch.training.trainer import Trainee
from mocosearch_index.paths import printable
from mocosearch_index.records import FileStamp

_TIMING_SHARE = 0.06  # of the minutes at hand, spent on finding out how long a step takes
FEWEST_STEPS = 100  # below which a person is warned
_FEWEST_TIMED, _MOST_TIMED = 3, 30

NO_OPTIONS = RunOptions()


def new_run(
    root: Path,
    recipe: Recipe,
    *,
    recipe_name: str,
    folder: Path,
    numbered: bool = False,
    minutes: float | None,
    steps: int | None = None,
    init: Encoder | None = None,
    pack_folder: Path | None = None,
    options: RunOptions = NO_OPTIONS,
    workers: int | None = None,
    on_photo: CountCallback = lambda done, total: None,
    on_measuring: Callable[[], None] = lambda: None,
) -> Run:
    """Find and pack the photos, fit the recipe to them, turn `minutes` into a number of steps, write the folder.

    `numbered`: where `folder` is taken, FOLDER-2 and so on is made. `steps` is that number where it is known already.
    The backbone starts from that of `init`: see `continued`. On several ranks the first one does what is done once.
    Raises NoPhotos for fewer than 8 photos that can be read, NotLabelled for a probe that is not sorted into class
    folders, BadRecipe. `workers` is the number of processes that prepare batches; it changes no result.
    """
    if options.tensorboard:
        check_tensorboard()
    if init is not None:
        recipe = continued(recipe, init)
    check_sizes(recipe)
    root = root.absolute()
    pack, photos, skipped = _packed(root, recipe, pack_folder, on_photo)
    recipe, smaller = fit_to_photos(recipe, photos)
    if smaller:  # a run's pack is as large as its own recipe needs it
        pack.close()
        check_sizes(recipe)
        pack, photos, skipped = _packed(root, recipe, pack_folder, on_photo)
    fitted, notices = fit_to_collection(recipe, len(photos), ranks=world_size())
    notices = smaller + notices
    device = best_device()
    probe = _read_probe(options.probe, fitted) if options.probe else None
    compiled = options.compile and _can_compile(device, notices)
    batches = ViewBatches.of_recipe(pack, photos, fitted, device, workers=_workers(workers, device))
    total_steps, seconds = steps or fitted.schedule.epochs * batches.steps_per_epoch, None
    if minutes is not None:
        on_measuring()
        seconds, spent = measure_step(fitted, batches, device, budget=60 * minutes * _TIMING_SHARE, compiled=compiled)
        left = (60 * minutes - spent) * (1 - SHARE * (2 if options.probe else 1))
        total_steps = max(1, min(total_steps, int(left / seconds)))
        if total_steps < FEWEST_STEPS:
            notices.append(too_few(total_steps))
    facts = RunFacts(
        id=on_first_rank(lambda: uuid4().hex),
        root=str(root),
        recipe=recipe_name,
        init=init.card.description if init else None,
        total_steps=total_steps,
        minutes=minutes,
        probe=str(options.probe.absolute()) if options.probe else None,
        tensorboard=options.tensorboard,
        compile=options.compile,
        pack_folder=str(pack.folder),
        device=str(device),
        ranks=world_size(),
        precision=precision_name(device),
        threads=torch.get_num_threads(),
        mocosearch=__version__,
        torch=torch.__version__,
    )
    folder = folder.absolute()
    run_folder = RunFolder(on_first_rank(lambda: make_unused(folder)) if numbered else folder)
    on_first_rank(lambda: run_folder.create(facts, fitted, [photo.stamp for photo in photos], skipped))
    weights = init.network.cpu().state_dict() if init else None
    return Run(
        run_folder,
        facts.id,
        root,
        recipe_name,
        fitted,
        batches,
        total_steps,
        device,
        skipped,
        notices,
        seconds,
        init=weights,
        continued_from=facts.init,
        probe=probe,
        tensorboard=options.tensorboard,
        compile=compiled,
    )


def resumed_run(folder: Path, *, workers: int | None = None, on_photo: CountCallback = lambda done, total: None) -> Run:
    """Read a run back to continue it; raises BadCheckpoint when that cannot be done exactly.

    Another number of ranks than before continues with a notice: the losses then differ a little.
    """
    run_folder = RunFolder(folder.absolute())
    facts, recipe, stamps = run_folder.read()
    if facts.tensorboard:
        check_tensorboard()
    if run_folder.is_finished:
        where = f"its encoder is {run_folder.encoder}"
        raise BadCheckpoint(f"The run in {folder} is finished; {where}. To train anew name another --out.")
    if recipe.batch % world_size() or recipe.batch < FEWEST_PER_RANK * world_size():
        devices = f"{world_size()} devices: ask for fewer --devices"
        raise BadDevices(f"The run's batch of {recipe.batch} cannot be spread over {devices}.")
    root, pack_folder = Path(facts.root), Path(facts.pack_folder)
    on_first_rank(lambda: pack_photos(root, stamps, recipe.views, pack_folder, on_photo))
    pack, photos, skipped = open_packed(root, stamps, recipe.views, pack_folder)
    if skipped:
        raise BadCheckpoint(
            f"{len(skipped)} photos of the run in {folder} changed or are gone, {printable(skipped[0].path)} among "
            "them: put them back, or train without --resume."
        )
    notices = on_first_rank(lambda: _changes(root, stamps))
    if facts.ranks != world_size():
        notices.append(f"{world_size()} devices instead of {facts.ranks}: the losses will differ a little")
    device = best_device()
    return Run(
        run_folder,
        facts.id,
        root,
        facts.recipe,
        recipe,
        ViewBatches.of_recipe(pack, photos, recipe, device, workers=_workers(workers, device)),
        facts.total_steps,
        device,
        notices=notices,
        continued_from=facts.init,
        probe=_read_probe_again(facts, recipe, notices),
        tensorboard=facts.tensorboard,
        compile=facts.compile and _can_compile(device, notices),
        resume=True,
    )


def too_few(steps: int) -> str:
    """Return what to tell of a run of fewer than `FEWEST_STEPS`."""
    return f"So few steps ({steps}) teach an encoder next to nothing: give it more --minutes or photos"


def measure_step(
    recipe: Recipe, batches: ViewBatches, device: torch.device, *, budget: float, compiled: bool = False
) -> tuple[float, float]:
    """Return the seconds of a step and the seconds of those that told, on weights that are thrown away.

    The lower quartile of a few steps: what else the machine does at the start should not decide the whole run. The
    same on all ranks, each of which has to call it.
    """
    batches.start()
    method = build_method(recipe, device, photos=len(batches.photos))
    if compiled:
        compile_networks(method)
    trainee = Trainee(method, build_optimizer(recipe, method), autocast=autocast_dtype(device))
    seconds: list[float] = []
    while len(seconds) < _FEWEST_TIMED or (sum(seconds[1:]) < budget and len(seconds) < _MOST_TIMED):
        before = perf_counter()
        loss, _ = trainee.step(*batches(len(seconds)))
        float(loss)  # waits for the device
        seconds += mean_over_ranks([torch.tensor(perf_counter() - before, device=device)])
    settled = sorted(seconds[1:])  # the first step also warms up, with torch.compile for minutes
    return settled[len(settled) // 4], sum(settled)


def _read_probe(folder: Path, recipe: Recipe) -> Probe | None:
    """Read the labelled photos on the first rank, which alone looks at them; what is wrong with them is said on all."""
    found: list[Probe] = []
    on_first_rank(lambda: found.append(Probe.read(folder, preprocessing_of(recipe))))
    return found[0] if found else None


def _changes(root: Path, stamps: Sequence[FileStamp]) -> list[str]:
    """Return a notice of the photos that changed or vanished since the run began; it goes on with the pack's copies."""
    changed = [stamp for stamp in stamps if not _is_there(root / os.fsdecode(stamp.path), stamp)]
    if not changed:
        return []
    first = printable(changed[0].path)
    return [f"{len(changed)} photos changed or are gone, {first} among them: the run goes on with its copies of them"]


def _is_there(path: Path, stamp: FileStamp) -> bool:
    try:
        return is_unchanged(path, stamp)
    except OSError:
        return False


def _read_probe_again(facts: RunFacts, recipe: Recipe, notices: list[str]) -> Probe | None:
    """Return the probe of a resumed run; a run need not be lost because its probe is."""
    if facts.probe is None:
        return None
    try:
        return _read_probe(Path(facts.probe), recipe)
    except (NoPhotos, NotLabelled) as error:
        notices.append(f"no kNN accuracy from here on: {error}")
        return None


def _workers(asked: int | None, device: torch.device) -> int:
    return default_workers(device) if asked is None else asked


def _can_compile(device: torch.device, notices: list[str]) -> bool:
    works = on_first_rank(lambda: can_compile(device))
    if not works:
        notices.append("--compile has no effect: torch.compile found no C++ compiler that works; install g++ or clang")
    return works


def _packed(
    root: Path, recipe: Recipe, pack_folder: Path | None, on_photo: CountCallback
) -> tuple[Pack, list[PackedPhoto], list[UnpackedPhoto]]:
    """Find and pack the photos of `root` for the recipe's crops; every size of a pack has a folder of its own."""
    views = recipe.views
    folder = pack_folder / str(packed_short_side(views)) if pack_folder else default_pack_folder(root, views)
    stamps = on_first_rank(lambda: _find(root, recipe, folder, on_photo))
    return open_packed(root, stamps, recipe.views, folder)


def _find(root: Path, recipe: Recipe, pack_folder: Path, on_photo: CountCallback) -> list[FileStamp]:
    """Find the photos of `root` and pack them."""
    stamps = list(find_photos(root))
    if not stamps:
        raise NoPhotos(
            f"{printable(os.fsencode(root))} holds no photos: name a folder with JPEG, PNG, HEIC or such files."
        )
    pack_photos(root, stamps, recipe.views, pack_folder, on_photo)
    return stamps
