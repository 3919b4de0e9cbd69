"""The library that a command is about, opened and named."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mocosearch.library import Library


def how_to_change(index_folder: Path) -> str:
    """Return how another encoder comes to be used, since an index keeps the one that made it."""
    from mocosearch_index.paths import shown

    return f"to use it, delete {shown(index_folder)} and index again"


@contextmanager
def opened_library(folder: Path | None, *, writable: bool = False) -> "Iterator[Library]":
    """Yield the library of `folder`, or else the one in use, and say on stderr which it is and why; NoLibrary."""
    from mocosearch.find_library import library_in_use
    from mocosearch.library import Library
    from mocosearch_index.paths import shown

    index_folder, why = library_in_use(folder)
    with Library.open(index_folder, writable=writable) as library:
        click.echo(f"Library  {shown(library.root)} ({why})", err=True)
        yield library
