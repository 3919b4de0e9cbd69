"""`mocosearch index`."""

import click


@click.command("index")
def command() -> None:
    """Not written yet."""
