"""`mocosearch demo`."""

import click


@click.command("demo")
def command() -> None:
    """Not written yet."""
