"""Photos decoded in other processes: a file that crashes or hangs its decoder costs that file and nothing else.

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
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from mocosearch.errors import DecodersFailed
from mocosearch.images.decode import TIME_CAP, DecodedImage, Undecodable, decode
from mocosearch.images.geometry import Geometry
from mocosearch.images.prepared import Prepared, prepare

Key = TypeVar("Key")
T = TypeVar("T")


class DecodePool:
    """Processes that decode and cut photos. Several threads may use a pool; a context manager."""

    def __init__(self, workers: int | None = None, seconds: float = TIME_CAP) -> None:
        """`workers`: processes at most, by default one a core; `seconds`: the time cap for one photo."""
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(workers or os.cpu_count() or 1, thread_name_prefix="decode")
        self._lock = threading.Lock()  # of the following
        self._turns: IO[bytes] | None = None  # the workers' lock
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(
        self, photos: Iterable[tuple[Key, Path]], geometry: Geometry, ahead: int
    ) -> Generator[tuple[Key, Prepared | Undecodable]]:
        """Prepare photos named by any keys: each key comes back once, in order, with its pixels or the reason why not.

        Keys are drawn at most `ahead` (1 or more) before they come back. Raises DecodersFailed.
        """
        photos = iter(photos)
        waiting: deque[tuple[Key, Future[Prepared | Undecodable]]] = deque()
        try:
            while True:
                drawn = islice(photos, ahead - len(waiting))
                waiting.extend((key, self._submit(partial(prepare, path.absolute(), geometry))) for key, path in drawn)
                if not waiting:
                    return
                key, outcome = waiting.popleft()
                yield key, outcome.result()
        finally:
            for _, outcome in waiting:
                outcome.cancel()

    def decode(self, source: Path | bytes, short_side: int | None = None) -> DecodedImage:
        """Do what `images.decode.decode` does. Raises Undecodable, DecodersFailed."""
        source = source.absolute() if isinstance(source, Path) else source
        outcome = self._submit(partial(decode, source, short_side=short_side)).result()
        if isinstance(outcome, Undecodable):
            raise outcome
        return outcome

    def close(self) -> None:
        """End the processes, also in the middle of a photo."""
        with self._lock:
            self._is_closed = True
            for worker in self._workers:
                worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.end()
        if self._turns:
            self._turns.close()

    def _submit(self, work: Callable[..., T]) -> Future[T | Undecodable]:
        return self._threads.submit(self._done, work)

    def _done(self, work: Callable[..., T]) -> T | Undecodable:
        how = ""
        for is_first_try in (True, False):  # a crash may be an earlier photo's doing, or that of who killed the process
            worker = (self._idle_worker() if is_first_try else None) or self._new_worker()
            try:
                outcome: T | Undecodable = worker.ask(work)
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
                self._turns = self._turns or tempfile.TemporaryFile()  # noqa: SIM115
                worker = _Worker(self._turns.fileno())
            except OSError as error:
                raise _not_started(str(error)) from error
            self._workers.append(worker)
        try:
            worker.ask(self._seconds)  # answered when it has imported what it needs
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

    def ask(self, request: object) -> Any:
        """Return what the process answers; EOFError, OSError or UnpicklingError when it ended."""
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
