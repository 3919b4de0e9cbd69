"""What is said on stderr while work goes on that must not be lost because nobody is there to read it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def lasting_stderr() -> Iterator[None]:
    """Write to stderr within; when its terminal or the reader of its pipe is gone, all that follows is dropped."""
    try:
        yield
    except OSError:
        silence(2)


def say(line: str) -> None:
    """Print a line on stderr, if anybody is there to read it."""
    with lasting_stderr():
        click.echo(line, err=True)


def silence(descriptor: int) -> None:
    """Drop all that is written to `descriptor` from now on."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, descriptor)
    os.close(nobody)
