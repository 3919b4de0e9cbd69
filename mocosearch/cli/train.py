"""`mocosearch train`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.stop_signal import stop_on_signals
from mocosearch.cli.training_progress import counting, print_plan, training_bar

if TYPE_CHECKING:
    from mocosearch.training.run import Run

CPU_MINUTES = 60.0


@click.command("train")
@click.argument("folder", metavar="DIR", required=False, type=click.Path(path_type=Path))
@click.option("--recipe", "recipe_name", help="A recipe by name, such as moco_v2, or a YAML file.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change one key of the recipe; repeatable."
)
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Train for about this long.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/RECIPE-TIME]")
@click.option("--resume", is_flag=True, help="Continue the run in --out, or the newest unfinished one in runs/.")
def command(
    folder: Path | None,
    recipe_name: str | None,
    overrides: tuple[str, ...],
    minutes: float | None,
    out: Path | None,
    resume: bool,
) -> None:
    """Learn an encoder from the photos below DIR; no labels needed.

    Without flags it takes the paper's ResNet-50 recipe (moco_v2) where there is a GPU, else moco_v2_small for at
    most 60 minutes. Ctrl-C saves; --resume goes on from there. The folder of the finished encoder is printed.
    """
    if resume:
        if recipe_name or overrides or minutes:
            raise click.UsageError("--recipe, --set and --minutes are fixed for a run; leave them out with --resume.")
        run, why = _resumed(folder, out), "resumed"
    elif folder is None:
        raise click.UsageError("Name the folder of photos to train on: mocosearch train DIR.")
    else:
        run, why = _new(folder, out, recipe_name, overrides, minutes)
    print_plan(run, why)
    with stop_on_signals("Stopping at the end of this step") as stop, training_bar(run) as on_step:
        encoder = run.train(on_step=on_step, stop=stop)
    from mocosearch.user_folders import set_current_encoder

    set_current_encoder(encoder)
    click.echo(f"Done. Next: mocosearch index {run.root}", err=True)
    click.echo(encoder)


def _resumed(photos: Path | None, out: Path | None) -> "Run":
    from mocosearch.training.run import resumed_run
    from mocosearch.training.run_folder import latest_unfinished

    folder = out or latest_unfinished(Path("runs"), photos)
    with counting("Reading photos") as on_photo:
        return resumed_run(folder, on_photo=on_photo)


def _new(
    photos: Path, out: Path | None, recipe_name: str | None, overrides: tuple[str, ...], minutes: float | None
) -> tuple["Run", str]:
    """Make a run and say why it has its recipe. Whatever is wrong with the flags is said before torch is loaded."""
    from mocosearch.recipes import load_recipe

    recipe_name, why, minutes = _choose(recipe_name, minutes)
    recipe, name = load_recipe(recipe_name, overrides), Path(recipe_name).stem
    folder = _run_folder(out, name, photos)
    from mocosearch.training.run import new_run

    with counting("Reading photos") as on_photo:
        run = new_run(photos, recipe, recipe_name=name, folder=folder, minutes=minutes, on_photo=on_photo)
    return run, why


def _choose(recipe_name: str | None, minutes: float | None) -> tuple[str, str, float | None]:
    """Return recipe, why it was taken, and the minutes to train."""
    if recipe_name is not None:
        return recipe_name, "as asked", minutes
    from mocosearch.devices import best_device

    if best_device().type == "cuda":
        return "moco_v2", "the paper's, since there is a GPU", minutes
    return "moco_v2_small", "there is no GPU; --recipe chooses another", minutes or CPU_MINUTES


def _run_folder(out: Path | None, name: str, photos: Path) -> Path:
    """Return the folder of a new run, never inside the photos and never one that holds something."""
    from mocosearch.user_folders import data_folder

    inside = photos.resolve()
    if out is not None:
        if out.resolve().is_relative_to(inside):
            raise click.UsageError(f"--out {out} lies inside the folder of photos; name a folder elsewhere.")
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise click.UsageError(f"--out {out} is not empty; name a new folder, or add --resume to continue its run.")
        return out
    folder = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    return data_folder() / folder if folder.resolve().is_relative_to(inside) else folder
