"""`mocosearch serve`."""

import click


@click.command("serve")
def command() -> None:
    """Not written yet."""
