"""`mocosearch search`."""

import click


@click.command("search")
def command() -> None:
    """Not written yet."""
