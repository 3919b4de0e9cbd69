"""Work that several threads want at the same moment, done by the first of them."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Never does the work of one key twice at the same time. It keeps no results: later callers do the work anew."""

    def __init__(self) -> None:
        self._running: dict[Hashable, Future[T]] = {}
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return what `work` returns or raise what it raises, or what the caller that is at it already is given."""
        with self._lock:
            running = self._running.get(key)
            if running is None:
                own = self._running[key] = Future()
        if running is not None:
            return running.result()
        try:
            outcome = work()
        except BaseException as error:
            own.set_exception(error)
            raise
        else:
            own.set_result(outcome)
            return outcome
        finally:
            with self._lock:
                del self._running[key]
