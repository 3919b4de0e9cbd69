"""Which encoders are trained and compared: every run has a name, and all that decides it is written here."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["untrained", "public", "ours", "lightly", "supervised"]


@dataclass(frozen=True)
class Planned:
    """A run: `minutes` of wall time on the cores it is given, or for a trial of CPU time on one core, twice as many.

    `changes` are to the recipe `recipe`, as `mocosearch train --set` takes them. `continued` runs start from the public
    network (an untrained one has its architecture). `pixels`: the sides of what the encoder sees when it is scored.
    """

    name: str
    case: str
    kind: Kind
    pixels: tuple[int, ...]
    minutes: float = 0
    recipe: str = "moco_v2_small"
    changes: tuple[str, ...] = ()
    continued: bool = False
    seed: int = 0
    trial: bool = False

    @property
    def overrides(self) -> list[str]:
        """Return what `--set` is given."""
        return [*self.changes, f"seed={self.seed}"]


_FAINT = (
    "views.color_jitter.brightness=0.1",
    "views.color_jitter.contrast=0.1",
    "views.color_jitter.saturation=0.1",
    "views.color_jitter.hue=0.02",
)  # a quarter of the paper's color jitter; the recipe `demo`, from which trials start, has half of it
_HALF = (
    "views.color_jitter.brightness=0.2",
    "views.color_jitter.contrast=0.2",
    "views.color_jitter.saturation=0.2",
    "views.color_jitter.hue=0.05",
)
_WHOLE = (
    "views.color_jitter.brightness=0.4",
    "views.color_jitter.contrast=0.4",
    "views.color_jitter.saturation=0.4",
    "views.color_jitter.hue=0.1",
    "views.grayscale=0.2",
)  # and the gray views of the paper
_BASE = ("batch=128", "optimizer.lr=0.001", "optimizer.lr_batch=128", "method.queue=4096")
_TIERED = ("backbone.architecture=timm:resnet10t",)
_SCRATCH = ("backbone.architecture=resnet18", *_BASE, *_FAINT)
_SMALL = (*_TIERED, "optimizer.lr=0.003", "schedule.warmup=0.1")  # moco_v2_small on tiles
_CONTINUED = (*_BASE, "views.crop=64")


def _trial(name: str, pixels: int, *changes: str, continued: bool = False) -> Planned:
    """Return a trial on tiles, of 5 minutes of CPU time."""
    return Planned(
        name, "eurosat", "ours", (pixels,), 2.5, recipe="demo", changes=changes, continued=continued, trial=True
    )


def _scratch(name: str, *changes: str, pixels: int = 64) -> Planned:
    return _trial(f"trial-scratch{name}", pixels, *_SCRATCH, *changes)


def _continued(name: str, *changes: str, pixels: int = 96) -> Planned:
    return _trial(f"trial-continued{name}", pixels, *_CONTINUED, *changes, continued=True)


_TRIALS = (
    _scratch(""),
    _scratch("-lr-0.003-warmup", "optimizer.lr=0.003", "schedule.warmup=0.1"),
    _scratch("-sgd", "optimizer.name=sgd", "optimizer.lr=0.06", "optimizer.weight_decay=0.0005"),
    _scratch("-batch-64", "batch=64", "optimizer.lr=0.0007", "optimizer.lr_batch=64"),
    _scratch("-crop-48", "views.crop=48"),
    _scratch("-no-jitter", "views.color_jitter.p=0"),
    _scratch("-T-0.2", "method.temperature=0.2"),
    _scratch("-K-1024", "method.queue=1024"),
    _scratch("-m-0.95", "method.momentum=0.95"),
    _scratch("-symmetric", "method.symmetric=true"),
    _scratch("-crop-24", "views.crop=24"),
    _scratch("-8-batch-norm-groups", "method.batch_norm_groups=8"),
    _scratch("-small-stem-crop-16", "backbone.small_stem=true", "views.crop=16", pixels=32),
    _scratch("-resnet10t", *_TIERED),
    _scratch("-resnet14t", "backbone.architecture=timm:resnet14t"),
    _scratch("-resnet10t-lr-0.003-warmup", *_SMALL),
    _scratch("-small-half-jitter", *_SMALL, *_HALF),
    _scratch("-small-jitter-gray", *_SMALL, *_WHOLE),
    _scratch("-resnet10t-batch-64", *_TIERED, "batch=64", "optimizer.lr=0.0007", "optimizer.lr_batch=64"),
    _scratch("-resnet10t-crop-40", *_TIERED, "views.crop=40"),
    _continued("-lr-0.0003", "optimizer.lr=0.0003"),
    _continued(""),
    _continued("-T-0.2", "method.temperature=0.2"),
    _continued("-faint", *_FAINT),
)

_TILES = ("views.crop=32", "encoder_input.resize=64", "encoder_input.crop=64")  # what our recipe makes of itself there
_CONTINUE = "moco_v2_continued"
_SEEDS = (0, 1)

_PUBLIC = Planned("public", "eurosat", "public", (64, 96, 160))
_CONTINUED_20 = tuple(
    Planned(f"continued-20-seed-{seed}", "eurosat", "ours", (64, 96), 20, _CONTINUE, continued=True, seed=seed)
    for seed in _SEEDS
)
_SCRATCH_60 = Planned("scratch-60", "eurosat", "ours", (64,), 60)
_CONTINUED_60 = Planned("continued-60", "eurosat", "ours", (64, 96, 160), 60, _CONTINUE, continued=True)
_LIGHTLY_60 = Planned("lightly-60", "eurosat", "lightly", (64,), 60, changes=_TILES)
_SUPERVISED_60 = Planned("supervised-60", "eurosat", "supervised", (64,), 60, changes=_TILES)

_PUBLIC_PHOTOS = Planned("public", "grocery", "public", (144, 224))
_SCRATCH_PHOTOS = Planned("scratch-10", "grocery", "ours", (144,), 10)
_CONTINUED_PHOTOS = Planned("continued-20", "grocery", "ours", (144,), 20, _CONTINUE, continued=True)
_LONG_PHOTOS = Planned("continued-40", "grocery", "ours", (144, 224), 40, _CONTINUE, continued=True)
_GENTLE_PHOTOS = Planned(
    "continued-10-lr-0.0003", "grocery", "ours", (144,), 10, _CONTINUE, ("optimizer.lr=0.0003",), continued=True
)
_LIGHTLY_PHOTOS = Planned("lightly-10", "grocery", "lightly", (144,), 10)
_SUPERVISED_PHOTOS = Planned("supervised-10", "grocery", "supervised", (144,), 10)

PLAN: tuple[Planned, ...] = (
    _PUBLIC,
    Planned("untrained", "eurosat", "untrained", (64,)),
    Planned("untrained-public", "eurosat", "untrained", (64,), continued=True),
    *_TRIALS,
    *(Planned(f"scratch-20-seed-{seed}", "eurosat", "ours", (64,), 20, seed=seed) for seed in _SEEDS),
    *_CONTINUED_20,
    _SCRATCH_60,
    _CONTINUED_60,
    _LIGHTLY_60,
    _SUPERVISED_60,
    _PUBLIC_PHOTOS,
    Planned("untrained", "grocery", "untrained", (144,)),
    _SCRATCH_PHOTOS,
    _CONTINUED_PHOTOS,
    _LONG_PHOTOS,
    _GENTLE_PHOTOS,
    _LIGHTLY_PHOTOS,
    _SUPERVISED_PHOTOS,
)
COMPARED: tuple[tuple[Planned, Planned], ...] = (
    *((continued, _PUBLIC) for continued in _CONTINUED_20),
    (_CONTINUED_60, _PUBLIC),
    (_CONTINUED_60, _SCRATCH_60),
    (_SCRATCH_60, _LIGHTLY_60),
    (_SCRATCH_60, _SUPERVISED_60),
    (_SCRATCH_60, _PUBLIC),
    (_CONTINUED_PHOTOS, _PUBLIC_PHOTOS),
    (_LONG_PHOTOS, _PUBLIC_PHOTOS),
    (_GENTLE_PHOTOS, _PUBLIC_PHOTOS),
    (_SCRATCH_PHOTOS, _LIGHTLY_PHOTOS),
    (_SCRATCH_PHOTOS, _SUPERVISED_PHOTOS),
)
