"""The files of a training run.

run.json        format version, folder of the photos, number of steps, what the run runs on
recipe.yaml     the recipe as it is used, fitted to the collection
photos.jsonl    the frozen list of photos, one a line
skipped.jsonl   the files that give no picture, each with its reason
metrics.jsonl   loss, accuracy, learning rate and timing, one step a line
health.jsonl    health of the query encoder, one look a line
training.png    both as curves
tensorboard/    both for TensorBoard, if asked for
checkpoints/    the newest states to resume from
encoder/        the finished query encoder
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from mocosearch.errors import BadCheckpoint, BadRecipe
from mocosearch.images.pack import UnpackedPhoto
from mocosearch.recipes import Recipe, validate_recipe
from mocosearch_index.atomic import atomic_write
from mocosearch_index.records import FileStamp

FORMAT = 1


@dataclass(frozen=True)
class RunOptions:
    """What may be asked of a run besides its recipe; a resumed run keeps to it."""

    probe: Path | None = None  # a folder of labelled photos, to report the kNN accuracy of
    tensorboard: bool = False
    compile: bool = False  # by torch.compile


class RunFacts(BaseModel):
    """What run.json holds; `root`, `probe` and `pack_folder` are paths, bytes that are not UTF-8 as lone surrogates."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    root: str
    recipe: str
    init: str | None
    total_steps: int
    minutes: float | None
    probe: str | None = None
    tensorboard: bool = False
    compile: bool = False
    pack_folder: str
    device: str
    ranks: int
    precision: str
    threads: int
    mocosearch: str
    torch: str


class RunFolder:
    """Where the parts of a run lie, and how they are written and read back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.encoder = path / "encoder"
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"
        self.skipped = path / "skipped.jsonl"
        self.health = path / "health.jsonl"
        self.plot = path / "training.png"

    def never_began(self) -> bool:
        """Tell whether this is a run that was stopped before anything was saved: nothing is lost by a new one."""
        return (self.path / "run.json").exists() and not any(self.checkpoints.glob("step-*.pt"))

    def create(
        self, facts: RunFacts, recipe: Recipe, photos: Iterable[FileStamp], skipped: Iterable[UnpackedPhoto] = ()
    ) -> None:
        """Write all that is fixed before the first step; run.json, last, makes it a run."""
        self.path.mkdir(parents=True, exist_ok=True)
        frozen = [{"path": _text(photo.path), "size": photo.size, "mtime_ns": photo.mtime_ns} for photo in photos]
        atomic_write(self.path / "photos.jsonl", _lines(frozen))
        reasons = [{"path": _text(file.path), "reason": file.reason, "detail": file.detail} for file in skipped]
        atomic_write(self.skipped, _lines(reasons))
        settings = yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False)
        atomic_write(self.path / "recipe.yaml", settings.encode())
        atomic_write(self.path / "run.json", json.dumps(facts.model_dump(), indent=1).encode())

    def read(self) -> tuple[RunFacts, Recipe, list[FileStamp]]:
        """Read back what `create` wrote; raises BadCheckpoint when it is missing, damaged or from a newer version."""
        try:
            content = json.loads((self.path / "run.json").read_bytes())
            if content.get("format") != FORMAT:
                raise BadCheckpoint(f"{self.path} was written by a newer version of mocosearch; upgrade to resume it.")
            facts = RunFacts.model_validate(content)
            recipe = validate_recipe(yaml.safe_load((self.path / "recipe.yaml").read_bytes()))
            rows = [json.loads(line) for line in (self.path / "photos.jsonl").read_bytes().splitlines()]
            photos = [FileStamp(_bytes(row["path"]), row["size"], row["mtime_ns"]) for row in rows]
        except FileNotFoundError as error:
            raise BadCheckpoint(
                f"{self.path} holds no training run ({Path(error.filename).name} is missing); "
                "train without --resume to start anew."
            ) from None
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ValidationError,
            BadRecipe,
            yaml.YAMLError,
        ) as error:
            raise BadCheckpoint(f"The run in {self.path} is damaged: {' '.join(str(error).split())}.") from None
        return facts, recipe, photos


def latest_unfinished(runs: Path, root: Path | None) -> Path:
    """Return the newest run below `runs` that has no encoder yet, of the photos in `root` if given."""
    found = sorted(runs.glob("*/run.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in found:
        folder = RunFolder(path.parent)
        if not folder.encoder.is_dir() and (root is None or Path(folder.read()[0].root) == root.absolute()):
            return path.parent
    raise BadCheckpoint(f"There is no unfinished run in {runs.absolute()}; name its folder with --out.")


def _lines(rows: Iterable[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _text(path: bytes) -> str:
    return path.decode("utf-8", errors="surrogateescape")


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", errors="surrogateescape")
