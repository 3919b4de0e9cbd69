"""`mocosearch export`: an encoder, an index or vectors for other programs."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mocosearch.cli.opened_library import opened_library

if TYPE_CHECKING:
    from mocosearch.library.exports import ListFormat

FORMATS = ("torchvision", "safetensors", "onnx", "detectron2")


@click.group("export")
def command() -> None:
    """Write an encoder, an index or its vectors for other programs."""


@command.command("encoder")
@click.argument("encoder", required=False)
@click.option("--format", "format_name", type=click.Choice(FORMATS), required=True, help="What the file is to be.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def encoder(encoder: str | None, format_name: str, out: Path, force: bool) -> None:
    """Write an encoder as a file of another project.

    ENCODER is whatever `index --encoder` takes; without it, the encoder that was trained last. torchvision: a state
    dict. safetensors: the same tensors, with what mocosearch knows of them. onnx: from pixels to unit vectors, checked
    against torch. detectron2: its MODEL.WEIGHTS. The path of the file is printed; docs/encoders.md tells how to load
    it.
    """
    from mocosearch.cli.encoders import load_aloud
    from mocosearch.user_folders import encoder_trained_last
    from mocosearch_index.paths import is_reachable, shown

    if is_reachable(out) and not force:  # before anything is loaded or downloaded
        raise click.UsageError(f"--out {shown(out)} is there already; name another, or add --force to replace it.")
    chosen = encoder or encoder_trained_last()
    import torch

    from mocosearch.encoders.export import export_encoder

    loaded = load_aloud(chosen, torch.device("cpu"))
    click.echo(f"Encoder  {loaded.card.description}  [{loaded.fingerprint}]", err=True)
    told = export_encoder(loaded, format_name, out, replace=force)
    click.echo(f"Format   {format_name}: {told}", err=True)
    click.echo(os.fsencode(out))


def _options_of_vectors(command: Callable[..., None]) -> Callable[..., None]:
    """Add what `export index` and `export embeddings` have in common."""
    options = (
        click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path)),
        click.option(
            "--format",
            "list_format",
            type=click.Choice(("csv", "jsonl")),
            default="csv",
            show_default=True,
            help="What the list of the photos is to be.",
        ),
        click.option("--force", is_flag=True, help="Replace the files if they are there."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@command.command("index")
@_options_of_vectors
@click.option(
    "--out",
    metavar="F.faiss",
    type=click.Path(path_type=Path),
    required=True,
    help="The FAISS file; the list lies beside.",
)
def index(folder: Path | None, list_format: "ListFormat", force: bool, out: Path) -> None:
    """Write the vectors of a library as a FAISS file, with a list.

    DIR is a folder that was indexed; without it, the library of the current folder, else the one indexed last.
    `faiss.read_index` reads the file: inner products of unit vectors, and the ids of the list. The vectors are those of
    the encoder, not whitened, so scores are other ones than those of `search`. F.csv (or F.jsonl) has id, path below
    DIR, width, height and the time taken of each. The paths of both files are printed.
    """
    from mocosearch.library.exports import export_index

    _export_vectors(export_index, folder, out, list_format, force)


@command.command("embeddings")
@_options_of_vectors
@click.option(
    "--out", metavar="F.npy", type=click.Path(path_type=Path), required=True, help="The array; the list lies beside."
)
def embeddings(folder: Path | None, list_format: "ListFormat", force: bool, out: Path) -> None:
    """Write the vectors of a library as an array, with a list.

    DIR is a folder that was indexed; without it, the library of the current folder, else the one indexed last.
    `numpy.load` reads the array: float32, one unit vector a row, in the order of the list. F.csv (or F.jsonl) has id,
    path below DIR, width, height and the time taken of each. The paths of both files are printed.
    """
    from mocosearch.library.exports import export_embeddings

    _export_vectors(export_embeddings, folder, out, list_format, force)


def _export_vectors(
    export: Callable[..., tuple[Path, int]], folder: Path | None, out: Path, list_format: "ListFormat", force: bool
) -> None:
    with opened_library(folder) as library:
        names, count = export(library.index, out, list_format, replace=force)
        own = library.index.encoder
        click.echo(f"Vectors  {count:,} of {own.dim} numbers, by {own.fingerprint}", err=True)
    click.echo(os.fsencode(out))
    click.echo(os.fsencode(names))
