"""`mocosearch serve`: the page in the browser."""

import signal
import sys
from pathlib import Path

import click


@click.command("serve")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the page.  [default: 7860, or the next free one]")
def command(folder: Path | None, port: int | None) -> None:
    """Look for similar photos in the browser.

    Upload or drop a picture, or click a photo of the library, and see its nearest neighbors. DIR is a folder that
    was indexed (or the folder of its index); without it, the library of the current folder, else the one indexed
    last. Prints the address.

    The page is for this machine only and asks nothing of the network. Ctrl-C stops it.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))  # until the server handles it
    from mocosearch.find_library import library_in_use
    from mocosearch.library import Library
    from mocosearch_index.paths import shown

    index, why = library_in_use(folder)
    with Library.open(index) as library:
        photos = library.index.counts().get("indexed", 0)
        click.echo(f"Serving {shown(library.root)} ({why}): {photos:,} photos. Ctrl-C stops.", err=True)
        from mocosearch_app import serve

        serve(library, port=port, on_ready=click.echo)
