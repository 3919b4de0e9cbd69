"""`mocosearch train`."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.numbers import NumberRange
from mocosearch.cli.opened_library import how_to_change
from mocosearch.cli.stop_signal import stop_on_signals
from mocosearch.cli.training_progress import counting, print_plan, training_bar

if TYPE_CHECKING:
    from mocosearch.recipes import Recipe
    from mocosearch.training.run import Run
    from mocosearch.training.run_folder import RunOptions

_OF_INIT = ("backbone", "views.mean", "views.std")  # keys of the recipe
CPU_MINUTES = 60.0
_CONTINUED = "moco_v2_continued"


@dataclass(frozen=True)
class NewRun:
    """What a new run is made of; sent to every rank."""

    photos: Path
    folder: Path
    numbered: bool  # where that folder is taken
    recipe: "Recipe"
    recipe_name: str
    why: str
    minutes: float | None
    init: str | None
    options: "RunOptions"


@click.command("train")
@click.argument("folder", metavar="DIR", required=False, type=click.Path(path_type=Path))
@click.option(
    "--recipe", "recipe_name", metavar="NAME", help="One of `mocosearch recipes`, or a YAML file of your own."
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change one key, as method.temperature=0.1; repeatable. docs/recipes.md has all.",
)
@click.option(
    "--init", metavar="E", help="Continue from this encoder, and its network: whatever `index --encoder` takes."
)
@click.option(
    "--minutes",
    metavar="N",
    type=NumberRange(min=0, min_open=True),
    help="Train for about this long, once photos are read; no longer than the recipe's epochs.",
)
@click.option(
    "--probe",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Labelled photos, a folder for each class: report kNN accuracy on them.",
)
@click.option("--tensorboard", is_flag=True, help="Also write files for TensorBoard into the run's folder.")
@click.option("--compile", "compiled", is_flag=True, help="Use torch.compile: a slow start, then perhaps faster steps.")
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(min=0),
    help="Processes per device that prepare batches ahead.  [default: 1; on a GPU up to 4]",
)
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/RECIPE-TIME]"
)
@click.option("--resume", is_flag=True, help="Continue the run in --out, or the newest unfinished one in runs/.")
@click.option(
    "--devices",
    metavar="N",
    type=click.IntRange(min=1),
    help="GPUs, or CPU processes, to train on.  [default: all GPUs, or 1]",
)
def command(
    folder: Path | None,
    recipe_name: str | None,
    overrides: tuple[str, ...],
    init: str | None,
    minutes: float | None,
    probe: Path | None,
    tensorboard: bool,
    compiled: bool,
    workers: int | None,
    out: Path | None,
    resume: bool,
    devices: int | None,
) -> None:
    """Learn an encoder from the photos below DIR; no labels needed.

    Without --recipe it takes moco_v2_continued with --init, else the paper's ResNet-50 recipe (moco_v2) where there
    is a GPU and moco_v2_small where not; without a GPU for at most 60 minutes. Ctrl-C saves; --resume goes on from
    there. The folder of the finished encoder is printed; training.png beside it shows the run.

    All visible GPUs are used. Under torchrun or SLURM the command joins the ranks that were started there.
    """
    what: NewRun | Path
    if resume:
        if recipe_name or overrides or minutes or init or probe or tensorboard or compiled:
            fixed = "--recipe, --set, --init, --minutes, --probe, --tensorboard and --compile"
            raise click.UsageError(f"{fixed} are fixed for a run; leave them out with --resume.")
        what = _to_resume(folder, out)
    elif folder is None:
        raise click.UsageError("Name the folder of photos to train on: mocosearch train DIR.")
    else:
        for override in overrides:
            if init and override.startswith(_OF_INIT):
                raise click.UsageError(
                    f"Backbone and normalization are those of --init: leave out --set {override}, or --init."
                )
        from mocosearch.training.run_folder import RunOptions

        options = RunOptions(probe, tensorboard, compiled)
        what = _new_run(folder, out, recipe_name, overrides, minutes, init, options)
    root, encoder = _on_devices(what, devices, workers)
    if encoder is None:  # another rank than the first
        return
    from mocosearch.user_folders import set_current_encoder

    set_current_encoder(encoder)
    click.echo(f"Done. {_next(root)}", err=True)
    click.echo(encoder)


def _next(root: Path) -> str:
    """Return what to do with the encoder that was trained on the photos in `root`."""
    from mocosearch.find_library import has_index, index_folder
    from mocosearch_index.paths import shown

    if not has_index(root):
        return f"Next: mocosearch index {root}"
    how = how_to_change(index_folder(root))
    return f"The index of {shown(root)} keeps the encoder that made it, not this one; {how}."


def _to_resume(photos: Path | None, out: Path | None) -> Path:
    from mocosearch.training.run_folder import RunFolder, latest_unfinished

    if out is None:
        return latest_unfinished(Path("runs"), photos)
    if not RunFolder(out).is_of(photos):
        raise click.UsageError(f"The run in {out} is one of other photos than {photos}; leave the folder out.")
    return out


def _new_run(
    photos: Path,
    out: Path | None,
    recipe_name: str | None,
    overrides: tuple[str, ...],
    minutes: float | None,
    init: str | None,
    options: "RunOptions",
) -> NewRun:
    """Choose what was left open. Whatever is wrong with the flags is said here, before torch is loaded."""
    from mocosearch.recipes import load_recipe

    recipe_name, why, minutes = _choose(recipe_name, minutes, init)
    recipe, name = load_recipe(recipe_name, overrides), Path(recipe_name).stem
    return NewRun(photos, _run_folder(out, name, photos), out is None, recipe, name, why, minutes, init, options)


def _choose(recipe_name: str | None, minutes: float | None, init: str | None) -> tuple[str, str, float | None]:
    """Return recipe, why it was taken, and the minutes to train."""
    if recipe_name is not None:
        random = recipe_name == _CONTINUED and not init
        return recipe_name, "as asked, from random weights: it is made for --init" if random else "as asked", minutes
    from mocosearch.devices import best_device

    on_gpu = best_device().type == "cuda"
    if not on_gpu:
        minutes = minutes or CPU_MINUTES
    if init:
        return _CONTINUED, "for --init; --recipe chooses another", minutes
    if on_gpu:
        return "moco_v2", "the paper's, since there is a GPU", minutes
    return "moco_v2_small", "there is no GPU; --recipe chooses another", minutes


def _run_folder(out: Path | None, name: str, photos: Path) -> Path:
    """Return the folder of a new run, never inside the photos and never one that holds something."""
    from mocosearch.training.run_folder import RunFolder
    from mocosearch.user_folders import data_folder

    inside = photos.resolve()
    if out is not None:
        if out.resolve().is_relative_to(inside):
            raise click.UsageError(f"--out {out} lies inside the folder of photos; name a folder elsewhere.")
        if out.exists() and (not out.is_dir() or any(out.iterdir())) and not RunFolder(out).never_began():
            raise click.UsageError(f"--out {out} is not empty; name a new folder, or add --resume to continue its run.")
        return out
    folder = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    return data_folder() / folder if folder.resolve().is_relative_to(inside) else folder


def _on_devices(what: NewRun | Path, devices: int | None, workers: int | None) -> tuple[Path, Path | None]:
    """Train here, on ranks started from here, or as one of the ranks that somebody else started."""
    from mocosearch.distributed import on_first_rank
    from mocosearch.distributed.launch import device_count, in_world, join_world, launch

    if in_world():
        join_world()
        return _train(on_first_rank(lambda: what), workers)  # whose clock names the run's folder
    count = device_count(devices)
    if count == 1:
        return _train(what, workers)
    result: tuple[Path, Path | None] = launch(partial(_train, what, workers), count)
    return result


def _train(what: NewRun | Path, workers: int | None) -> tuple[Path, Path | None]:
    """Train as one rank; return the folder of the photos and, on the first rank, the finished encoder."""
    from mocosearch.distributed import rank, world_size
    from mocosearch.training.prepare import FEWEST_STEPS, too_few

    first = rank() == 0
    run, why = _prepare(what, workers, quiet=not first)
    if first:
        print_plan(run, why)
    # Ranks are asked to stop by the terminal and by who started them: only a person's own process counts twice.
    with (
        stop_on_signals("Stopping at the end of this step", patient=world_size() > 1, quiet=not first) as stop,
        training_bar(run, quiet=not first) as bar,
    ):
        encoder = run.train(on_step=bar.step, on_health=bar.health, stop=stop)
    if first and run.total_steps < FEWEST_STEPS:
        click.echo(f"Note     {too_few(run.total_steps)}", err=True)
    return run.root, encoder if first else None


def _prepare(what: NewRun | Path, workers: int | None, *, quiet: bool) -> tuple["Run", str]:
    from mocosearch.cli.encoders import load_aloud
    from mocosearch.training.prepare import new_run, resumed_run

    with counting("Reading photos", quiet=quiet) as on_photo:
        if isinstance(what, Path):
            return resumed_run(what, workers=workers, on_photo=on_photo), "resumed"
        run = new_run(
            what.photos,
            what.recipe,
            recipe_name=what.recipe_name,
            folder=what.folder,
            numbered=what.numbered,
            minutes=what.minutes,
            init=load_aloud(what.init) if what.init else None,
            options=what.options,
            workers=workers,
            on_photo=on_photo,
            on_measuring=lambda: None if quiet else click.echo("Measuring how long a step takes ...", err=True),
        )
        return run, what.why
