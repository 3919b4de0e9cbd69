"""Ctrl-C, SIGTERM and a closed terminal ask politely: work stops at its next safe point, the second time at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from mocosearch.cli.lasting_stderr import say


@contextmanager
def stop_on_signals(message: str, *, patient: bool = False, quiet: bool = False) -> Iterator[Callable[[], bool]]:
    """Yield a function that turns true once a signal asked to stop; `message` then says what is being waited for.

    `patient`: further signals change nothing; `quiet`: somebody else says it.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked and not patient and number != signal.SIGHUP:  # which a shell and the system both send
            raise KeyboardInterrupt
        first, asked = not asked, True
        if first and not quiet:
            say(f"\n{message}{'' if patient else ' (once more to stop at once)'}")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
