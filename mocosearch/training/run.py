"""A training run: photos, recipe and method put together, trained to the end and saved on the way."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from math import log
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from mocosearch.devices import autocast_dtype
from mocosearch.distributed import on_first_rank, rank
from mocosearch.encoders import Encoder, EncoderCard, save_encoder
from mocosearch.errors import Interrupted, RunGoingOn, TrainingStopped
from mocosearch.evaluation.knn import chance_accuracy
from mocosearch.images.pack import UnpackedPhoto
from mocosearch.methods import Method
from mocosearch.recipes import Recipe
from mocosearch.training.build import build_method, build_optimizer, negatives, preprocessing_of
from mocosearch.training.checkpoint import drop_old_checkpoints, load_latest, not_of_this_run, save_checkpoint
from mocosearch.training.compilation import compile_networks
from mocosearch.training.data import ViewBatches
from mocosearch.training.monitor import HealthReport, Monitor, Probe, epochs_between_looks
from mocosearch.training.plot import PlotFacts
from mocosearch.training.records import Records
from mocosearch.training.run_folder import RunFolder
from mocosearch.training.schedule import learning_rate
from mocosearch.training.trainer import StepReport, Trainee, run_steps
from mocosearch_index.atomic import disk_errors_named

CHECKPOINT_SECONDS = 300.0
EPOCH_CHECKPOINT_SECONDS = 60.0  # at the end of an epoch, which in a small collection comes every few seconds
StepCallback = Callable[[StepReport], None]
HealthCallback = Callable[[HealthReport], None]
Look = Callable[[int], None]


@dataclass(frozen=True)
class Run:
    """A run that is ready to train, from its first step or from its newest checkpoint."""

    folder: RunFolder
    id: str | None  # of run.json
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
    continued_from: str | None = None  # whose weights these are, in words
    probe: Probe | None = None
    tensorboard: bool = False
    compile: bool = False  # by torch.compile
    resume: bool = False

    @property
    def photos(self) -> int:
        """The number of photos that are trained on."""
        return len(self.batches.photos)

    @property
    def chance_loss(self) -> float:
        """The loss of a query encoder that guesses among the positive and K negatives: ln(K + 1)."""
        return log(1 + negatives(self.recipe))

    @property
    def epochs_between_looks(self) -> int:
        """How many epochs pass from one look at the encoder's health to the next."""
        return epochs_between_looks(self.recipe, photos=self.photos, probed=self.probe is not None)

    def train(
        self,
        *,
        on_step: StepCallback,
        on_health: HealthCallback = lambda report: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Path:
        """Train to the end and return the folder of the finished encoder; on several ranks, call it on each.

        Once `stop()` is true on any rank, the state is saved at the next step boundary and Interrupted is raised.
        Raises RunGoingOn when another process trains in the folder.
        """
        with ExitStack() as held:
            on_first_rank(lambda: self._take_folder(held))
            return self._train(on_step, on_health, stop)

    def _take_folder(self, held: ExitStack) -> None:
        """Hold the folder, provided that it is still this run's."""
        held.enter_context(self.folder.held())
        if self.folder.facts().id != self.id:
            raise RunGoingOn(f"Another run began in {self.folder.path} meanwhile: name another --out.")
        self.folder.remove_partials()

    def _train(self, on_step: StepCallback, on_health: HealthCallback, stop: Callable[[], bool]) -> Path:
        self.batches.start()  # while the networks are built
        trainee, first = self._trainee()
        epoch = self.batches.steps_per_epoch
        rate = learning_rate(self.recipe, total_steps=self.total_steps, steps_per_epoch=epoch)
        with closing(self.batches), self._sight(trainee.method, first, on_health) as (record, look):
            if not self.resume:
                self._save(trainee, 0)  # so that there is something to resume, and a full disk is noticed now
            look(first)
            saved_at = perf_counter()
            for report in run_steps(trainee, self.batches, rate, steps=range(first, self.total_steps), stop=stop):
                record(report)
                finished = report.step == self.total_steps
                if finished or not report.stop:  # who asked to stop should not wait; the resumed run looks first
                    look(report.step)
                on_step(report)
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
            state = load_latest(self.folder.checkpoints, run=self.id, total_steps=self.total_steps)
            try:
                method.load_state_dict(state["method"])
                optimizer.load_state_dict(state["optimizer"])
            except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
                raise not_of_this_run(self.folder.checkpoints) from error
            first = state["step"]
        if self.compile:
            compile_networks(method)
        return Trainee(method, optimizer, autocast=autocast_dtype(self.device)), first

    @contextmanager
    def _sight(self, method: Method, first: int, on_health: HealthCallback) -> Iterator[tuple[StepCallback, Look]]:
        """Yield what records a step, and what looks at the encoder after a step if that is due; on the first rank."""
        if rank() > 0:
            yield lambda report: None, lambda step: None
            return
        epoch, batches = self.batches.steps_per_epoch, self.batches
        between = epoch * self.epochs_between_looks
        monitor = Monitor(batches.pixels, batches.photos, self.recipe, self.device, self.probe)
        facts = PlotFacts(
            title=f"{self.recipe_name}, {self.photos:,} photos",
            steps_per_epoch=epoch,
            total_steps=self.total_steps,
            chance_loss=self.chance_loss,
            chance_knn=chance_accuracy(self.probe.labels) if self.probe else None,
        )
        keep = first if self.resume else -1
        with (
            disk_errors_named(self.folder.path),
            Records(self.folder, facts, keep_steps=keep, tensorboard=self.tensorboard) as records,
        ):

            def look(step: int) -> None:
                due = step % between == 0 or step == self.total_steps
                if due and step > records.looked_until:
                    report = monitor.look(self._encoder(method, steps=step), step=step, epoch=step / epoch)
                    records.health(report)
                    on_health(report)

            yield records.step, look

    def _save(self, trainee: Trainee, step: int) -> None:
        """Save the state, unless that would replace one that is good by one that is not; raises TrainingStopped."""
        tensors = chain(trainee.method.parameters(), trainee.method.buffers())
        if not torch.stack([tensor.isfinite().all() for tensor in tensors]).all():  # one wait for the device
            raise TrainingStopped(
                f"The weights are not finite after step {step}: lower the learning rate (--set optimizer.lr=...) and "
                "start again; the last checkpoint is intact."
            )
        if rank() == 0:
            method, optimizer = trainee.method.state_dict(), trainee.optimizer.state_dict()
            save_checkpoint(self.folder.checkpoints, run=self.id, step=step, method=method, optimizer=optimizer)

    def save_encoder(self, method: Method, folder: Path, *, steps: int) -> None:
        """Write the method's query encoder as it is after `steps` steps."""
        save_encoder(folder, method.query_encoder.state_dict(), self._card(steps), preprocessing_of(self.recipe))

    def save_untrained(self, folder: Path) -> None:
        """Write the encoder as it is before the first step, to compare with."""
        method = build_method(self.recipe, torch.device("cpu"), photos=self.photos, init=self.init)
        self.save_encoder(method, folder, steps=0)

    def _encoder(self, method: Method, *, steps: int) -> Encoder:
        """Return a copy of the query encoder as it is after `steps` steps, without its head."""
        backbone = copy.deepcopy(method.query_encoder.backbone)
        return Encoder(backbone, self._card(steps), preprocessing_of(self.recipe), self.device)

    def _card(self, steps: int) -> EncoderCard:
        return EncoderCard(
            architecture=self.recipe.backbone.architecture,
            small_stem=self.recipe.backbone.small_stem,
            stem_padding=self.recipe.backbone.stem_padding,
            stem_relu=self.recipe.backbone.stem_relu,
            feature_dim=self.recipe.method.feature_dim,
            trained_on=str(self.root) + (f", continued from {self.continued_from}" if self.continued_from else ""),
            photos=self.photos,
            steps=steps,
            recipe=self.recipe_name,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
