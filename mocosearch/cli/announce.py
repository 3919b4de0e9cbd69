"""What a person is told before mocosearch touches the network."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mocosearch.downloads import Offer


def announce(offer: "Offer") -> None:
    """Say on stderr what is about to be downloaded from where, how large it is and under which license."""
    size = "size not stated" if offer.size is None else f"{offer.size / 1e6:,.0f} MB"
    click.echo(f"Downloading {offer.name} ({size}; license: {offer.license}) from {offer.url}", err=True)
