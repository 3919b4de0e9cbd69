"""Loading an encoder in front of a person: what a download is, how large and under what license, then a bar."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import torch

    from mocosearch.encoders import Encoder
    from mocosearch.encoders.downloads import Offer


# Help of every option that names an encoder; `mocosearch.encoders.FORMS`, which loads torch, has the same in full.
FORMS = "A run folder, an encoder folder, a checkpoint file, torchvision:NAME, timm:NAME or a download: "
FORMS += "see docs/encoders.md."


def load_aloud(spec: str | Path, device: "torch.device | None" = None) -> "Encoder":
    """Load any encoder that `mocosearch.encoders.load_encoder` takes."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from mocosearch.encoders import load_encoder

    columns = (BarColumn(24), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=None, visible=False)

        def announce(offer: "Offer") -> None:
            size = "size unknown" if offer.size is None else f"{offer.size / 1e6:,.0f} MB"
            click.echo(f"Downloading {offer.name} from {offer.url}: {size}; license: {offer.license}", err=True)
            bar.update(task, total=offer.size, visible=True)

        return load_encoder(spec, device, announce=announce, progress=lambda done: bar.update(task, completed=done))
