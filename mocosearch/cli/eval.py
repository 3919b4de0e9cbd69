"""`mocosearch eval`."""

import click


@click.command("eval")
def command() -> None:
    """Not written yet."""
