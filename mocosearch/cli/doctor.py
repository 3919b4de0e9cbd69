"""`mocosearch doctor`."""

import click


@click.command("doctor")
def command() -> None:
    """Not written yet."""
