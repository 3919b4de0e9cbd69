"""`mocosearch status`."""

import click


@click.command("status")
def command() -> None:
    """Not written yet."""
