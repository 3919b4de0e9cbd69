"""What is said on stderr while work goes on that must not be lost because nobody is there to read it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting_stderr() -> Iterator[None]:
    """Write to stderr within; when its terminal or the reader of its pipe is gone, all that follows is dropped."""
    try:
        yield
    except OSError:
        silence(2)


def silence(descriptor: int) -> None:
    """Drop all that is written to `descriptor` from now on."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, descriptor)
    os.close(nobody)
