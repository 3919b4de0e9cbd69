"""Photos prepared ahead in other processes: a file that crashes or hangs its decoder is skipped and the run goes on.

Each of a few threads has a process of its own to talk to, asks it for one photo after the other and replaces it when it
ends. Processes are started when there is something to do, not by multiprocessing: they run nothing of the program that
uses the pool, import neither torch nor faiss, and are in a session of their own, where no Ctrl-C reaches them.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar

from mocosearch.errors import DecodersFailed
from mocosearch.images.decode import TIME_CAP, Undecodable
from mocosearch.images.geometry import Geometry
from mocosearch.images.prepared import Prepared

Key = TypeVar("Key")


class DecodePool:
    """Processes that decode and cut photos. Several threads may use a pool; a context manager."""

    def __init__(self, geometry: Geometry, workers: int | None = None, seconds: float = TIME_CAP) -> None:
        """`workers`: processes at most, by default one a core; `seconds`: the time cap for one photo."""
        self._geometry = geometry
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(workers or os.cpu_count() or 1, thread_name_prefix="decode")
        self._turns = tempfile.TemporaryFile()  # noqa: SIM115 - the workers' lock
        self._lock = threading.Lock()  # of the following
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self, photos: Iterable[tuple[Key, Path]], ahead: int) -> Generator[tuple[Key, Prepared | Undecodable]]:
        """Prepare photos named by any keys: each key comes back once, in order, with its pixels or the reason why not.

        Keys are drawn at most `ahead` (1 or more) before they come back. Raises DecodersFailed.
        """
        photos = iter(photos)
        waiting: deque[tuple[Key, Future[Prepared | Undecodable]]] = deque()
        try:
            while True:
                drawn = islice(photos, ahead - len(waiting))
                waiting.extend((key, self._threads.submit(self._prepare, path)) for key, path in drawn)
                if not waiting:
                    return
                key, outcome = waiting.popleft()
                yield key, outcome.result()
        finally:
            for _, outcome in waiting:
                outcome.cancel()

    def close(self) -> None:
        """End the processes, also in the middle of a photo."""
        with self._lock:
            self._is_closed = True
            for worker in self._workers:
                worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.end()
        self._turns.close()

    def _prepare(self, path: Path) -> Prepared | Undecodable:
        how = ""
        for is_first_try in (True, False):  # a crash may be an earlier photo's doing, or that of who killed the process
            worker = (self._idle_worker() if is_first_try else None) or self._new_worker()
            try:
                outcome = worker.prepare(path)
            except (EOFError, OSError, pickle.UnpicklingError):
                code = self._drop(worker)
                if code == -signal.SIGALRM:
                    return Undecodable("timeout", f"stopped after {self._seconds:g} seconds")
                how = _ending(code)
                continue
            with self._lock:
                self._idle.append(worker)
            return outcome
        return Undecodable("crashed", how)

    def _idle_worker(self) -> "_Worker | None":
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _new_worker(self) -> "_Worker":
        with self._lock:
            if self._is_closed:
                raise CancelledError
            try:
                worker = _Worker(self._turns.fileno())
            except OSError as error:
                raise _not_started(str(error)) from error
            self._workers.append(worker)
        try:
            worker.make_ready(self._geometry, self._seconds)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise _not_started(f"exit code {self._drop(worker)}") from None
        return worker

    def _drop(self, worker: "_Worker") -> int:
        """Clear away a worker that ended; returns its exit code. Raises CancelledError when close() ended it."""
        with self._lock:
            if self._is_closed:
                raise CancelledError
            self._workers.remove(worker)
        return worker.end()


class _Worker:
    """One process and the pipes to it."""

    def __init__(self, turns: int) -> None:
        # By code and not by -m: the modules are found where they were found here.
        code = (
            f"import sys; sys.path[:] = {sys.path!a}; from mocosearch.images.decode_worker import main; main({turns})"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(turns,),
            start_new_session=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # numpy would start threads that nothing uses
        )

    def make_ready(self, geometry: Geometry, seconds: float) -> None:
        """Wait until the process has imported what it needs. Raises what `prepare` raises."""
        self._ask((geometry, seconds))

    def prepare(self, path: Path) -> Prepared | Undecodable:
        """Have one photo prepared; EOFError, OSError or UnpicklingError when the process ended."""
        outcome: Prepared | Undecodable = self._ask(os.fsencode(path.absolute()))
        return outcome

    def _ask(self, request: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(request, self.process.stdin)
        self.process.stdin.flush()
        return pickle.load(self.process.stdout)

    def end(self) -> int:
        """End the process if it still runs and return its exit code, negative for a signal."""
        self.process.kill()
        with contextlib.suppress(BrokenPipeError):  # half a request may wait to be written
            self.process.__exit__(None, None, None)
        return self.process.returncode


def _not_started(cause: str) -> DecodersFailed:
    return DecodersFailed(
        f"A process that decodes photos could not be started ({cause}): free memory, "
        "or see with `mocosearch doctor` whether all is installed."
    )


def _ending(code: int) -> str:
    return f"its decoder ended with {code}" if code >= 0 else f"its decoder was stopped: {signal.strsignal(-code)}"
