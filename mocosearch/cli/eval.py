"""`mocosearch eval`: how good is an encoder, by the field's own protocols."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mocosearch.cli.encoders import FORMS

if TYPE_CHECKING:
    from mocosearch.encoders import Encoder
    from mocosearch.evaluation.features import LabelledFeatures


@click.group("eval")
def command() -> None:
    """Score an encoder on photos sorted into class folders.

    The labels are used for scoring only. The class of a photo is the folder that it lies in.
    """


def _options(function: Callable[..., None]) -> Callable[..., None]:
    """Add what every protocol takes: DIR, --encoder and --json."""
    options = [
        click.argument("folder", metavar="DIR", type=click.Path(path_type=Path)),
        click.option(
            "--encoder",
            metavar="E",
            help=f"{FORMS.capitalize()}: see docs/encoders.md.  [default: the encoder that was trained last]",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@command.command("knn")
@_options
@click.option("-k", type=click.IntRange(min=1), default=20, show_default=True, help="Neighbors that vote.")
def knn(folder: Path, encoder: str | None, as_json: bool, k: int) -> None:
    """Name each photo of DIR by a vote of its nearest neighbors.

    The vote is weighted by exp(cosine / 0.07). Precision@10 is the share of the ten nearest that are of the
    photo's own class: what a search shows.
    """
    from mocosearch.evaluation.intervals import wilson_interval
    from mocosearch.evaluation.knn import evaluate_knn

    loaded, features = _embed(folder, encoder)
    result = evaluate_knn(features.vectors, features.labels, features.held_out, k=k)
    for notice in result.notices:
        click.echo(f"Note     {notice}", err=True)
    accuracy, precision = result.figures
    interval = wilson_interval(accuracy.value, int(result.facts["scored"]))
    chances = accuracy.chance or 0.0, precision.chance or 0.0
    if as_json:
        figures = {"accuracy": accuracy.value, "interval": interval, "chance": chances[0]}
        precisions = {"precision_at_10": precision.value, "chance_precision": chances[1]}
        _print_json("knn", folder, loaded, features, {**figures, **precisions, **result.facts})
        return
    _print_table(
        [
            (f"kNN accuracy (k = {result.facts['k']})", accuracy.value, interval, chances[0]),
            (precision.name, precision.value, None, chances[1]),
        ]
    )


@command.command("linear")
@_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the split.")
def linear(folder: Path, encoder: str | None, as_json: bool, seed: int) -> None:
    """Train a linear classifier on the vectors of DIR and score it.

    A fifth of every class is held out for scoring; the regularization is chosen on a part of the rest.
    """
    from dataclasses import asdict

    from mocosearch.evaluation.linear import linear_probe

    loaded, features = _embed(folder, encoder)
    result = linear_probe(features.vectors, features.labels, seed=seed)
    click.echo(f"Split    {result.train:,} to learn from, {result.test:,} to score; L2 {result.l2:.1g}", err=True)
    if as_json:
        _print_json("linear", folder, loaded, features, asdict(result))
        return
    _print_table([("linear accuracy", result.accuracy, result.interval, result.chance)])


def _embed(folder: Path, encoder: str | None) -> tuple["Encoder", "LabelledFeatures"]:
    """Embed the class folders, and say on stderr by which encoder, how many photos, and what was skipped."""
    from collections import Counter

    from mocosearch.cli.encoders import load_aloud
    from mocosearch.cli.training_progress import counting
    from mocosearch.evaluation.labelled import find_labelled
    from mocosearch.user_folders import encoder_trained_last

    photos = find_labelled(folder)
    chosen = encoder or encoder_trained_last()  # before torch is loaded: what cannot work ends at once
    from mocosearch.evaluation.features import embed_labelled

    loaded = load_aloud(chosen)
    click.echo(f"Encoder  {loaded.card.description}  [{loaded.fingerprint}]", err=True)
    with counting("Embedding") as progress:
        features = embed_labelled(photos, loaded, progress)
    click.echo(f"Photos   {len(features.vectors):,} of {features.class_count:,} classes", err=True)
    if features.skipped:
        reasons = Counter(error.reason for _, error in features.skipped).most_common()
        listed = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
        click.echo(f"Skipped  {len(features.skipped):,}: {listed}", err=True)
    return loaded, features


def _print_json(
    protocol: str, folder: Path, encoder: "Encoder", features: "LabelledFeatures", figures: dict[str, Any]
) -> None:
    import json
    import os

    from mocosearch_index.paths import printable

    report = {
        "protocol": protocol,
        "folder": printable(os.fsencode(folder.absolute())),
        "encoder": encoder.card.description,
        "fingerprint": encoder.fingerprint,
        "photos": len(features.vectors),
        "classes": features.class_count,
        "skipped": [
            {"path": printable(os.fsencode(path)), "reason": error.reason, "detail": error.detail}
            for path, error in features.skipped
        ],
        **figures,
    }
    click.echo(json.dumps(report, indent=2))


def _print_table(rows: Iterable[tuple[str, float, tuple[float, float] | None, float]]) -> None:
    """Print figures, their 95% intervals and what chance gives."""
    from rich.console import Console
    from rich.table import Table

    table = Table("Figure", "Encoder", "95% interval", "Chance")
    for name, value, interval, chance in rows:
        between = f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else ""
        table.add_row(name, f"{value:.3f}", between, f"{chance:.3f}")
    Console().print(table)
