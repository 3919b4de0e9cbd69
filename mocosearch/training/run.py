"""A training run: photos, recipe and method put together, trained to the end, resumable at any step."""

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from math import log
from pathlib import Path
from time import perf_counter

import torch

from mocosearch import __version__
from mocosearch.devices import autocast_dtype, best_device, precision_name
from mocosearch.encoder import EncoderCard, Preprocessing, save_encoder
from mocosearch.errors import BadCheckpoint, Interrupted, NoPhotos
from mocosearch.images.pack import Pack, UnpackedPhoto
from mocosearch.images.views import IMAGENET_MEAN, IMAGENET_STD, packed_short_side
from mocosearch.images.walk import find_photos
from mocosearch.methods import Method
from mocosearch.recipes import Recipe
from mocosearch.training.build import build_method, build_optimizer, fit_to_collection, negatives
from mocosearch.training.checkpoint import load_latest, save_checkpoint
from mocosearch.training.data import ViewBatches
from mocosearch.training.run_folder import MetricsFile, RunFacts, RunFolder
from mocosearch.training.schedule import learning_rate
from mocosearch.training.trainer import StepReport, run_steps, training_step
from mocosearch.user_folders import cache_folder
from mocosearch_index.atomic import disk_errors_named
from mocosearch_index.paths import printable

CHECKPOINT_SECONDS = 300.0
_TIMING_SHARE = 0.04  # of the minutes at hand, spent on finding out how long a step takes
_FEWEST_TIMED, _MOST_TIMED = 3, 30

StepCallback = Callable[[StepReport], None]
CountCallback = Callable[[int, int], None]  # (done, total)


@dataclass(frozen=True)
class Run:
    """A run that is ready to train, from its first step or from its newest checkpoint."""

    folder: RunFolder
    root: Path
    recipe_name: str
    recipe: Recipe  # fitted to the collection
    batches: ViewBatches
    total_steps: int
    device: torch.device
    skipped: Sequence[UnpackedPhoto] = ()
    notices: Sequence[str] = ()  # what was changed to fit the recipe to the collection
    seconds_per_step: float | None = None  # where it was measured
    resume: bool = False

    @property
    def photos(self) -> int:
        """The number of photos that are trained on."""
        return len(self.batches.photos)

    @property
    def chance_loss(self) -> float:
        """The loss of a query encoder that guesses among the positive and K negatives: ln(K + 1)."""
        return log(1 + negatives(self.recipe))

    def train(self, *, on_step: StepCallback, stop: Callable[[], bool] = lambda: False) -> Path:
        """Train to the end and return the folder of the finished encoder.

        Once `stop()` is true, the state is saved at the next step boundary and Interrupted is raised.
        """
        method = build_method(self.recipe, self.device, photos=self.photos)
        optimizer = build_optimizer(self.recipe, method)
        first = 0
        if self.resume:
            state = load_latest(self.folder.checkpoints)
            method.load_state_dict(state["method"])
            optimizer.load_state_dict(state["optimizer"])
            first = state["step"]
        with (
            disk_errors_named(self.folder.path),
            MetricsFile(self.folder.metrics, keep_steps=first) as metrics,
        ):
            saved_at = perf_counter()

            def step_done(report: StepReport) -> None:
                nonlocal saved_at
                metrics.write(report)
                on_step(report)
                stopping = stop() and report.step < self.total_steps
                if stopping or report.step == self.total_steps or perf_counter() - saved_at > CHECKPOINT_SECONDS:
                    save_checkpoint(
                        self.folder.checkpoints,
                        step=report.step,
                        method=method.state_dict(),
                        optimizer=optimizer.state_dict(),
                    )
                    saved_at = perf_counter()
                if stopping:
                    raise Interrupted(
                        f"Stopped after step {report.step} of {self.total_steps}; it is saved, continue with: "
                        f"mocosearch train --resume --out {self.folder.path}"
                    )

            run_steps(
                method,
                optimizer,
                self.batches,
                learning_rate(self.recipe, total_steps=self.total_steps, steps_per_epoch=self.batches.steps_per_epoch),
                steps=range(first, self.total_steps),
                autocast=autocast_dtype(self.device),
                on_step=step_done,
            )
        self.save_encoder(method, self.folder.encoder, steps=self.total_steps)
        return self.folder.encoder

    def save_encoder(self, method: Method, folder: Path, *, steps: int) -> None:
        """Write the method's query encoder as it is after `steps` steps."""
        card = EncoderCard(
            architecture=self.recipe.backbone.architecture,
            small_stem=self.recipe.backbone.small_stem,
            feature_dim=self.recipe.method.feature_dim,
            trained_on=str(self.root),
            photos=self.photos,
            steps=steps,
            recipe=self.recipe_name,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        size = self.recipe.encoder_input
        preprocessing = Preprocessing(resize=size.resize, crop=size.crop, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        save_encoder(folder, method.query_encoder.state_dict(), card, preprocessing)


def new_run(
    root: Path,
    recipe: Recipe,
    *,
    recipe_name: str,
    folder: Path,
    minutes: float | None,
    pack_folder: Path | None = None,
    on_photo: CountCallback = lambda done, total: None,
) -> Run:
    """Find and pack the photos, fit the recipe to them, turn `minutes` into a number of steps, write the folder.

    Raises NoPhotos for a folder with fewer than 8 photos that can be read.
    """
    root = root.absolute()
    stamps = list(find_photos(root))
    if not stamps:
        raise NoPhotos(
            f"{printable(os.fsencode(root))} holds no photos: name a folder with JPEG, PNG, HEIC or such files."
        )
    pack = Pack(
        pack_folder or default_pack_folder(root, recipe),
        short_side=packed_short_side(recipe.views),
    )
    photos, skipped = pack.update(root, stamps, progress=lambda done: on_photo(done, len(stamps)))
    fitted, notices = fit_to_collection(recipe, len(photos))
    device = best_device()
    batches = ViewBatches(pack.pixels(), photos, fitted, device)
    total_steps, seconds = fitted.schedule.epochs * batches.steps_per_epoch, None
    if minutes is not None:
        seconds, spent = measure_step(fitted, batches, device, budget=60 * minutes * _TIMING_SHARE)
        total_steps = max(1, min(total_steps, int((60 * minutes - spent) / seconds)))
    facts = RunFacts(
        root=str(root),
        recipe=recipe_name,
        total_steps=total_steps,
        minutes=minutes,
        pack_folder=str(pack.folder),
        device=str(device),
        precision=precision_name(device),
        threads=torch.get_num_threads(),
        mocosearch=__version__,
        torch=torch.__version__,
    )
    run_folder = RunFolder(folder.absolute())
    run_folder.create(facts, fitted, [photo.stamp for photo in photos])
    return Run(
        run_folder,
        root,
        recipe_name,
        fitted,
        batches,
        total_steps,
        device,
        skipped,
        notices,
        seconds_per_step=seconds,
    )


def resumed_run(folder: Path, *, on_photo: CountCallback = lambda done, total: None) -> Run:
    """Read a run back to continue it; raises BadCheckpoint when that cannot be done exactly."""
    run_folder = RunFolder(folder.absolute())
    facts, recipe, stamps = run_folder.read()
    if run_folder.encoder.is_dir():
        raise BadCheckpoint(f"The run in {folder} is finished; its encoder is {run_folder.encoder}.")
    root = Path(facts.root)
    pack = Pack(Path(facts.pack_folder), short_side=packed_short_side(recipe.views))
    photos, skipped = pack.update(root, stamps, progress=lambda done: on_photo(done, len(stamps)))
    if skipped:
        raise BadCheckpoint(
            f"{len(skipped)} photos of the run in {folder} changed or are gone, {printable(skipped[0].path)} among "
            "them: put them back, or train without --resume."
        )
    device = best_device()
    batches = ViewBatches(pack.pixels(), photos, recipe, device)
    return Run(run_folder, root, facts.recipe, recipe, batches, facts.total_steps, device, resume=True)


def default_pack_folder(root: Path, recipe: Recipe) -> Path:
    """Return the place in the user's cache for the downsized photos of `root`, shared by runs of one crop size."""
    name = blake2b(os.fsencode(root.resolve()), digest_size=8).hexdigest()
    return cache_folder() / "packs" / f"{name}-{packed_short_side(recipe.views)}"


def measure_step(recipe: Recipe, batches: ViewBatches, device: torch.device, *, budget: float) -> tuple[float, float]:
    """Return the median seconds of a step and the seconds it took to find out, on weights that are thrown away."""
    started = perf_counter()
    method = build_method(recipe, device, photos=len(batches.photos)).train()
    optimizer = build_optimizer(recipe, method)
    seconds: list[float] = []
    while len(seconds) < _FEWEST_TIMED or (perf_counter() - started < budget and len(seconds) < _MOST_TIMED):
        before = perf_counter()
        views, ids = batches(len(seconds))
        loss, _ = training_step(method, optimizer, views, ids, autocast=autocast_dtype(device))
        float(loss)  # waits for the device
        seconds.append(perf_counter() - before)
    return statistics.median(seconds[1:]), perf_counter() - started  # the first step also warms up
