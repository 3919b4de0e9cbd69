"""A training run: photos, recipe and method put together, trained to the end and saved on the way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from math import log
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from mocosearch.devices import autocast_dtype
from mocosearch.distributed import rank
from mocosearch.encoder import EncoderCard, Preprocessing, save_encoder
from mocosearch.errors import Interrupted
from mocosearch.images.pack import UnpackedPhoto
from mocosearch.images.views import IMAGENET_MEAN, IMAGENET_STD
from mocosearch.methods import Method
from mocosearch.recipes import Recipe
from mocosearch.training.build import build_method, build_optimizer, negatives
from mocosearch.training.checkpoint import drop_old_checkpoints, load_latest, save_checkpoint
from mocosearch.training.data import ViewBatches
from mocosearch.training.run_folder import MetricsFile, RunFolder
from mocosearch.training.schedule import learning_rate
from mocosearch.training.trainer import StepReport, Trainee, run_steps
from mocosearch_index.atomic import disk_errors_named

CHECKPOINT_SECONDS = 300.0
EPOCH_CHECKPOINT_SECONDS = 60.0  # at the end of an epoch, which in a small collection comes every few seconds
StepCallback = Callable[[StepReport], None]


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
    init: Mapping[str, Tensor] | None = None  # weights that the backbone starts from, instead of random ones
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
        """Train to the end and return the folder of the finished encoder; on several ranks, call it on each.

        Once `stop()` is true on any rank, the state is saved at the next step boundary and Interrupted is raised.
        """
        trainee, first = self._trainee()
        epoch = self.batches.steps_per_epoch
        rate = learning_rate(self.recipe, total_steps=self.total_steps, steps_per_epoch=epoch)
        with self._records(first) as record:
            if not self.resume:
                self._save(trainee, 0)  # so that there is something to resume, and a full disk is noticed now
            saved_at = perf_counter()
            for report in run_steps(trainee, self.batches, rate, steps=range(first, self.total_steps), stop=stop):
                record(report)
                on_step(report)
                finished = report.step == self.total_steps
                between = CHECKPOINT_SECONDS if report.step % epoch else EPOCH_CHECKPOINT_SECONDS
                if finished or report.stop or perf_counter() - saved_at > between:
                    self._save(trainee, report.step)
                    saved_at = perf_counter()
                if report.stop and not finished:
                    raise Interrupted(
                        f"Stopped after step {report.step} of {self.total_steps}; it is saved, continue with: "
                        f"mocosearch train --resume --out {self.folder.path}"
                    )
            if rank() == 0:
                self.save_encoder(trainee.method, self.folder.encoder, steps=self.total_steps)
                drop_old_checkpoints(self.folder.checkpoints, keep=1)
        return self.folder.encoder

    def _trainee(self) -> tuple[Trainee, int]:
        """Return what trains, in the state of the newest checkpoint of a resumed run, and its next step."""
        method = build_method(self.recipe, self.device, photos=self.photos, init=self.init)
        optimizer = build_optimizer(self.recipe, method)
        first = 0
        if self.resume:
            state = load_latest(self.folder.checkpoints)
            method.load_state_dict(state["method"])
            optimizer.load_state_dict(state["optimizer"])
            first = state["step"]
        return Trainee(method, optimizer, autocast=autocast_dtype(self.device)), first

    @contextmanager
    def _records(self, first: int) -> Iterator[StepCallback]:
        """Yield what writes a step into metrics.jsonl; on the first rank only."""
        if rank() > 0:
            yield lambda report: None
            return
        with disk_errors_named(self.folder.path), MetricsFile(self.folder.metrics, keep_steps=first) as metrics:
            yield metrics.write

    def _save(self, trainee: Trainee, step: int) -> None:
        if rank() == 0:
            method, optimizer = trainee.method.state_dict(), trainee.optimizer.state_dict()
            save_checkpoint(self.folder.checkpoints, step=step, method=method, optimizer=optimizer)

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
