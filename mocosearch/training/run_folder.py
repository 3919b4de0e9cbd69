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
lock            held while the run is going on
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import yaml
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from mocosearch.errors import BadCheckpoint, BadRecipe, RunGoingOn
from mocosearch.images.pack import UnpackedPhoto
from mocosearch.recipes import Recipe, validate_recipe
from mocosearch_index.atomic import PARTIAL, atomic_write, disk_errors_named, remove_partials
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
    id: str | None = None  # random; None in a run of an older version
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
        self.photos = path / "photos.jsonl"
        self.skipped = path / "skipped.jsonl"
        self.health = path / "health.jsonl"
        self.plot = path / "training.png"

    def is_of(self, root: Path | None) -> bool:
        """Tell whether the run's photos are those in `root`, if that is given; raises BadCheckpoint."""
        stored = Path(self.facts().root)
        return root is None or stored.resolve() == root.resolve()

    @property
    def is_finished(self) -> bool:
        """Whether the encoder is written, of whose files the card is the last."""
        return (self.encoder / "encoder.json").is_file()  # encoders.sources.CARD_FILE, whose import loads torch

    def never_began(self) -> bool:
        """Tell whether this is a run that was stopped before anything was saved: nothing is lost by a new one."""
        if (self.path / "run.json").exists():
            return not any(self.checkpoints.glob("step-*.pt"))
        if not self.path.is_dir():
            return False
        # Stopped within `create`, a full disk for instance: the first of its files, and nothing else.
        names = {file.name for file in self.path.iterdir() if file.suffix != PARTIAL}
        order = ("lock", self.photos.name, self.skipped.name, "recipe.yaml")
        return bool(names) and names == set(order[: len(names)])

    def create(
        self, facts: RunFacts, recipe: Recipe, photos: Iterable[FileStamp], skipped: Iterable[UnpackedPhoto] = ()
    ) -> None:
        """Write all that is fixed before the first step; run.json, last, makes it a run. Raises RunGoingOn."""
        frozen = [{"path": _text(photo.path), "size": photo.size, "mtime_ns": photo.mtime_ns} for photo in photos]
        reasons = [{"path": _text(file.path), "reason": file.reason, "detail": file.detail} for file in skipped]
        settings = yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False)
        self.path.mkdir(parents=True, exist_ok=True)
        with self.held():
            atomic_write(self.photos, _lines(frozen))
            atomic_write(self.skipped, _lines(reasons))
            atomic_write(self.path / "recipe.yaml", settings.encode())
            atomic_write(self.path / "run.json", json.dumps(facts.model_dump(), indent=1).encode())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from training here; the system lets them in when this process dies. Raises RunGoingOn."""
        lock = FileLock(self.path / "lock", thread_local=False)
        try:
            with disk_errors_named(self.path):
                lock.acquire(timeout=0)
        except Timeout:
            raise RunGoingOn(
                f"A run is going on in {self.path}: wait for it or stop it, or name another --out."
            ) from None
        try:
            yield
        finally:
            lock.release()

    def going_on(self) -> bool:
        """Tell whether a process trains here."""
        try:
            with self.held():
                return False
        except RunGoingOn:
            return True

    def remove_partials(self) -> None:
        """Remove what a kill left half-written; only while the folder is held."""
        for folder in (self.path, self.checkpoints, self.encoder):
            remove_partials(folder)

    def facts(self) -> RunFacts:
        """Read run.json; raises BadCheckpoint like `read`."""
        with self._damage_named():
            content = json.loads((self.path / "run.json").read_bytes())
            if content.get("format") != FORMAT:
                raise BadCheckpoint(f"{self.path} was written by a newer version of mocosearch: update mocosearch.")
            return RunFacts.model_validate(content)

    def read(self) -> tuple[RunFacts, Recipe, list[FileStamp]]:
        """Read back what `create` wrote; raises BadCheckpoint when it is missing, damaged or from a newer version."""
        facts = self.facts()
        with self._damage_named():
            recipe = validate_recipe(yaml.safe_load((self.path / "recipe.yaml").read_bytes()))
            rows = [json.loads(line) for line in self.photos.read_bytes().splitlines()]
            photos = [FileStamp(_bytes(row["path"]), row["size"], row["mtime_ns"]) for row in rows]
        return facts, recipe, photos

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise BadCheckpoint(
                f"{self.path} holds no training run ({Path(error.filename).name} is missing): "
                "name the folder of one with --out, or train without --resume into another folder."
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
            raise BadCheckpoint(
                f"The run in {self.path} is damaged ({' '.join(str(error).split())}): train anew, into another --out."
            ) from None


def make_unused(path: Path) -> Path:
    """Make and return the folder `path`, or PATH-2, PATH-3 and so on where that is taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unused, number = path, 1
    while True:
        try:
            unused.mkdir()
            return unused
        except FileExistsError:
            number += 1
            unused = path.with_name(f"{path.name}-{number}")


def latest_unfinished(runs: Path, root: Path | None) -> Path:
    """Return the newest run below `runs` that can go on, of the photos in `root` if given."""
    found = sorted(runs.glob("*/run.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in found:
        folder = RunFolder(path.parent)
        if folder.is_finished or folder.never_began():
            continue
        with suppress(BadCheckpoint):  # a damaged one, which --out names
            if folder.is_of(root) and not folder.going_on():
                return path.parent
    raise BadCheckpoint(f"There is no unfinished run in {runs.absolute()}; name its folder with --out.")


def _lines(rows: Iterable[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _text(path: bytes) -> str:
    return path.decode("utf-8", errors="surrogateescape")


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", errors="surrogateescape")
