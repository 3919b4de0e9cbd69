"""`mocosearch ablate`: the paper's ablations on one's own photos."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.numbers import NumberRange
from mocosearch.cli.stop_signal import stop_on_signals
from mocosearch.cli.training_progress import counting, training_bar

if TYPE_CHECKING:
    from mocosearch.ablations import Cell, Study, Sweep

_STOPPED = "Stopped, all is saved; the same command goes on."
NAMES = ("queue", "momentum", "temperature", "dictionary", "recipe")


@click.command("ablate")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--study", "names", type=click.Choice(NAMES), multiple=True, help="Repeatable.  [default: all five]")
@click.option(
    "--probe",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Labelled photos to score on, a folder for each class.  [default: DIR's own]",
)
@click.option(
    "--recipe",
    "recipe_name",
    metavar="NAME",
    default="moco_v2_small",
    show_default=True,
    help="The baseline, a recipe of MoCo.",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change one key of it; repeatable.")
@click.option(
    "--minutes",
    metavar="N",
    type=NumberRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    help="What the baseline may train; all cells take as many steps.",
)
@click.option(
    "--seeds",
    metavar="N",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Seeds that the baseline is trained from: how much chance alone changes.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("ablation"),
    show_default=True,
    help="Folder of the runs and plots; an ablation that is there goes on.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    folder: Path,
    names: tuple[str, ...],
    probe: Path | None,
    recipe_name: str,
    overrides: tuple[str, ...],
    minutes: float,
    seeds: int,
    out: Path,
    as_json: bool,
) -> None:
    """Vary one thing at a time, as the papers do, and score it.

    \b
    queue         the length K, from the batch to what the collection allows
    momentum      m of the key encoder, 0 (a copy of the query encoder) included
    temperature   T
    dictionary    queue, memory bank, and the batch itself (end-to-end)
    recipe        from MoCo v1 to v2: head, augmentation, cosine

    Each cell is a training run in --out, scored by kNN accuracy; after Ctrl-C or a kill the same command goes on.
    Labels score, nothing else.
    """
    from mocosearch.evaluation.labels.labelled import find_labelled
    from mocosearch.recipes import load_recipe

    recipe = load_recipe(recipe_name, overrides)
    labelled = find_labelled(probe or folder)
    if labelled.stray:
        click.echo(f"Stray      {labelled.stray:,} lie in no class folder; they are not scored on", err=True)
    if out.resolve().is_relative_to(folder.resolve()):
        raise click.UsageError(f"--out {out} lies inside the folder of photos; name a folder elsewhere.")
    from mocosearch.ablations import STUDIES, Baseline, Sweep
    from mocosearch.training.prepare import FEWEST_STEPS

    with counting("Reading photos") as on_photo:
        sweep = Sweep.open(out, folder, recipe, minutes=minutes, probe=labelled, on_photo=on_photo)
    baseline = Baseline(sweep.facts.recipe, sweep.facts.photos)
    studies = [STUDIES[name](baseline) for name in names or NAMES]
    repeats = baseline.repeats(seeds)
    cells = list(dict.fromkeys([*repeats, *(cell for study in studies for _, cell in study.cells)]))
    steps, scored = sweep.facts.steps, len(sweep.probe.paths)
    click.echo(f"Cells      {len(cells)}, each of {steps:,} steps, scored on {scored:,} photos", err=True)
    if steps < FEWEST_STEPS:
        click.echo("Note       so few steps teach next to nothing: give the cells more --minutes", err=True)
    with counting("Scoring the untrained encoder") as progress:
        untrained = sweep.untrained_accuracy(progress)
    _complete(sweep, cells)
    _report(sweep, studies, repeats, untrained, as_json=as_json)


def _complete(sweep: "Sweep", cells: Sequence["Cell"]) -> None:
    """Train and score what is not done yet; a cell that diverges is a finding, and the next one follows."""
    from mocosearch.errors import Interrupted, TrainingStopped

    with stop_on_signals("Stopping at the end of this step") as stop:
        for number, cell in enumerate(cells, start=1):
            if sweep.result(cell):
                continue
            click.echo(f"Cell       {number} of {len(cells)}: {cell.name}", err=True)
            try:
                if run := sweep.run(cell):
                    with training_bar(run) as bar:
                        run.train(on_step=bar.step, on_health=bar.health, stop=stop)
            except TrainingStopped as error:
                click.echo(f"{cell.name} failed: {error}", err=True)
                continue
            except Interrupted:
                raise Interrupted(_STOPPED) from None
            with counting("Scoring") as progress:
                sweep.score(cell, progress)
            if stop() and number < len(cells):
                raise Interrupted(_STOPPED)


def _report(
    sweep: "Sweep", studies: Sequence["Study"], repeats: Sequence["Cell"], untrained: float, *, as_json: bool
) -> None:
    """Print every study's table, or all figures as JSON, and draw its plot into the sweep's folder."""
    from rich.console import Console
    from rich.table import Table

    from mocosearch.ablations.report import COLUMNS, as_dictionary, draw, rows, spread

    chance = spread(repeats, sweep.result)
    for study in studies:
        path = sweep.folder / f"{study.name}.png"
        draw(study, sweep.result, path, baseline=chance)
        click.echo(f"Plot       {path}", err=True)
    if as_json:
        import json

        click.echo(json.dumps(as_dictionary(studies, sweep.result, baseline=chance, untrained=untrained), indent=2))
        return
    for study in studies:
        table = Table(study.axis, *COLUMNS, title=study.name)
        for row in rows(study, sweep.result):
            table.add_row(*row)
        Console().print(table)
        click.echo(f"Papers     {study.paper}", err=True)
    click.echo(f"Untrained  {untrained:.3f} kNN accuracy before the first step", err=True)
    if chance:
        click.echo(
            f"Spread     baseline, {chance.runs} seeds: {chance.mean:.3f}, standard deviation {chance.deviation:.3f}",
            err=True,
        )
