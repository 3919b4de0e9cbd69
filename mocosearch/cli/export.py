"""`mocosearch export`: an encoder for other programs."""

from pathlib import Path

import click

FORMATS = ("torchvision", "safetensors", "onnx", "detectron2")


@click.group("export")
def command() -> None:
    """Write an encoder for other programs."""


@command.command("encoder")
@click.argument("encoder", required=False)
@click.option("--format", "format_name", type=click.Choice(FORMATS), required=True, help="What the file is to be.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def encoder(encoder: str | None, format_name: str, out: Path, force: bool) -> None:
    """Write ENCODER, or the one trained last, as a file of another project.

    ENCODER is whatever `index --encoder` takes. torchvision: a state dict. safetensors: the same tensors, with what
    mocosearch knows of them. onnx: from pixels to unit vectors, checked against torch. detectron2: its MODEL.WEIGHTS.
    The path of the file is printed; docs/encoders.md tells how to load it.
    """
    from mocosearch.cli.encoders import load_aloud
    from mocosearch.user_folders import encoder_trained_last
    from mocosearch_index.paths import is_reachable

    if is_reachable(out) and not force:  # before anything is loaded or downloaded
        raise click.UsageError(f"--out {out} is there already; name another, or add --force to replace it.")
    chosen = encoder or encoder_trained_last()
    import torch

    from mocosearch.encoders.export import export_encoder

    loaded = load_aloud(chosen, torch.device("cpu"))
    click.echo(f"Encoder  {loaded.card.description}  [{loaded.fingerprint}]", err=True)
    told = export_encoder(loaded, format_name, out, replace=force)
    click.echo(f"Format   {format_name}: {told}", err=True)
    click.echo(out)
