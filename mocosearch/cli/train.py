"""`mocosearch train`."""

import click


@click.command("train")
def command() -> None:
    """Not written yet."""
