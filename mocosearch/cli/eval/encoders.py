"""The encoders that `mocosearch eval` compares: named, loaded, and asked for the vectors of the same photos."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from mocosearch.cli.eval.options import UNTRAINED, Choices
from mocosearch.cli.lasting_stderr import say

if TYPE_CHECKING:
    from mocosearch.encoders import Encoder
    from mocosearch.evaluation.health import TwoViews
    from mocosearch.evaluation.side_by_side import SideBySide

_NAMELESS = ("encoder", ".mocosearch")  # folders that are called so everywhere


@dataclass(frozen=True)
class Named:
    """An encoder, and what tables call it."""

    name: str
    encoder: "Encoder"


def opened_encoders(choices: Choices) -> list[Named]:
    """Load the encoder that is evaluated and those it is compared with, and say on stderr which they are.

    Raises NoEncoder, BadCheckpoint.
    """
    from mocosearch.user_folders import encoder_trained_last

    if choices.report is not None:
        from mocosearch.evaluation.report import check_report_path

        check_report_path(choices.report)
    first = choices.encoder  # before torch is loaded: what cannot work ends at once
    if first is None:
        first = str(encoder_trained_last())
    from mocosearch.cli.encoders import load_aloud
    from mocosearch.encoders import untrained_like

    loaded = [load_aloud(first)]
    for spec in choices.against:
        loaded.append(untrained_like(loaded[0]) if spec == UNTRAINED else load_aloud(spec))
    names = names_of([first, *choices.against])
    for name, encoder in zip(names, loaded, strict=True):
        told = f"{name}: " if len(loaded) > 1 else ""
        say(f"Encoder  {told}{encoder.card.description}  [{encoder.fingerprint}]")
    return [Named(name, encoder) for name, encoder in zip(names, loaded, strict=True)]


def embed_all(paths: Sequence[Path], encoders: Sequence[Named]) -> "SideBySide":
    """Embed the photos by every encoder, and say on stderr what was skipped."""
    from mocosearch.cli.training_progress import counting
    from mocosearch.evaluation.features import embed_folder
    from mocosearch.evaluation.side_by_side import side_by_side

    features = []
    for named in encoders:
        with counting(f"Embedding by {named.name}" if len(encoders) > 1 else "Embedding") as progress:
            features.append(embed_folder(list(paths), named.encoder, progress))
    common = side_by_side(features)
    if common.skipped:
        reasons = Counter(error.reason for _, error in common.skipped).most_common()
        listed = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
        say(f"Skipped  {len(common.skipped):,}: {listed}")
    return common


def embed_views_of_all(paths: Sequence[Path], encoders: Sequence[Named]) -> "list[TwoViews]":
    """Embed two augmented views of a sample of the photos by every encoder."""
    from mocosearch.cli.training_progress import counting
    from mocosearch.evaluation.two_views import embed_two_views, in_common

    views = []
    for named in encoders:
        with counting(f"Embedding views by {named.name}" if len(encoders) > 1 else "Embedding views") as progress:
            views.append(embed_two_views(paths, named.encoder, progress))
    return in_common(views)


def names_of(specs: Sequence[str]) -> list[str]:
    """Return what tables call encoders: short, safe to print, and each different from those before."""
    names: list[str] = []
    for name in map(_short, specs):
        alike = (f"{name} ({number})" for number in count(2))
        names.append(next(free for free in chain([name], alike) if free not in names))
    return names


def _short(spec: str) -> str:
    """Return what a person calls an encoder: a run or a library by its folder, a file by its name, else as written."""
    from mocosearch_index.paths import is_reachable, printable

    path = Path(spec)
    if is_reachable(path):
        path = path.absolute()
        while path.name in _NAMELESS:
            path = path.parent
        spec = path.name
    elif spec.startswith("timm:") and "=" in spec:
        name, _, file = spec.partition("=")
        spec = f"{name}={Path(file).name}"
    return printable(os.fsencode(spec))
