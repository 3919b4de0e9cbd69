"""`mocosearch serve`: the page in the browser."""

import signal
import sys
from pathlib import Path

import click


@click.command("serve")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(1, 65535),
    help="Port of the page.  [default: 7860, or the next free one]",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen at; 0.0.0.0: all of them.",
)
@click.option(
    "--password",
    metavar="WORD",
    prompt=True,
    prompt_required=False,
    hide_input=True,
    envvar="MOCOSEARCH_PASSWORD",
    show_envvar=True,
    help="Ask for this password. Last on the line and without a value, it is asked for now.",
)
@click.option(
    "--token",
    metavar="TOKEN",
    envvar="MOCOSEARCH_TOKEN",
    show_envvar=True,
    help="Let programs in that send `Authorization: Bearer TOKEN`.",
)
@click.option(
    "--name", "names", metavar="HOST", multiple=True, help="Name under which a proxy passes requests on; repeatable."
)
@click.option("--insecure", is_flag=True, help="Show the photos to everybody who can reach --host or --name.")
def command(
    folder: Path | None,
    port: int | None,
    host: str,
    password: str | None,
    token: str | None,
    names: tuple[str, ...],
    insecure: bool,
) -> None:
    """Look for similar photos in the browser.

    Upload or drop a picture, or click a photo of the library, and see its nearest neighbors. DIR is a folder that
    was indexed (or the folder of its index); without it, the library of the current folder, else the one indexed
    last. Prints the address. Programs ask the same over HTTP: docs/api.md.

    As it is, the page is for this machine only; it asks nothing of the network. Another --host, or a --name,
    wants a password or a token: docs/serving.md tells more. Ctrl-C stops it.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))  # until the server handles it
    from mocosearch_index.paths import is_reachable, shown

    if folder is None and password is not None and is_reachable(Path(password)):
        raise click.UsageError("--password took the folder for its value: name DIR first, --password last.")
    from mocosearch.find_library import library_in_use
    from mocosearch.library import Library

    index, why = library_in_use(folder)
    with Library.open(index) as library:
        photos = library.index.counts().get("indexed", 0)
        click.echo(
            f"Library  {shown(library.root)} ({why}): {photos:,} photos. Opening the page; Ctrl-C ends it.", err=True
        )
        from mocosearch_app import serve

        serve(
            library,
            host=host,
            port=port,
            names=names,
            password=password,
            token=token,
            insecure=insecure,
            on_ready=click.echo,
        )
