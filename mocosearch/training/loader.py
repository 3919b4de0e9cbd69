"""Worker processes that prepare batches ahead of the trainer, in memory that they share with it.

The workers of a run are spawned once. Each is told of a step and a slot of the shared memory over a pipe of its own and
answers when the slot is filled: nothing is opened, allocated or pickled for a batch, and either side notices by the end
of the pipe that the other one is gone. Whoever makes a batch makes the same one: it is a function of the step.

Not torch's DataLoader, which opens a descriptor for every tensor, needs a /dev/shm of several batches, where containers
have 64 MB, and raises out of a signal handler, wherever the trainer is, when a worker dies.
"""

import ctypes
import multiprocessing
import signal
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.util import Finalize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mocosearch.errors import LoaderFailed

Buffer = NDArray[np.uint8]
Job = Callable[[int, Buffer], None]  # fills the buffer with the batch of a step; can be pickled
Memory = Any  # ctypes array, shared; typeshed has no better name

_SPAWN = multiprocessing.get_context("spawn")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS_TO_END = 10


@dataclass(frozen=True)
class _Worker:
    process: SpawnProcess
    pipe: "Connection[Any, Any]"


@dataclass(frozen=True)
class _Request:
    step: int
    slot: int
    worker: _Worker


class Loader:
    """Gives the batch of any step; after it, the following ones are prepared ahead."""

    def __init__(self, job: Job, most_bytes: int, workers: int, *, pinned: bool = False) -> None:
        """Without workers batches are made on demand; `pinned` lets a GPU copy them while it computes."""
        self._job = job
        self._count = workers
        self._ahead = workers + 1 if workers else 0
        self._most_bytes = most_bytes
        self._pinned = pinned
        self._memory: list[Memory] = []
        self._workers: list[_Worker] = []
        self._requests: deque[_Request] = deque()
        self._free: list[int] = []

    def start(self) -> None:
        """Start the workers, if they are not running; they take some seconds to be ready."""
        if not self._memory:
            self._memory = [_SPAWN.RawArray("B", self._most_bytes) for _ in range(1 + self._ahead)]
            if self._pinned:
                _pin(self._memory)
                weakref.finalize(self, _unpin, self._memory)
        if self._count and not self._workers:
            self._workers = _started(self._job, self._memory, self._count)
            self._free = list(range(len(self._memory)))
            # Also where nobody calls close(): at its end a process would wait for its children forever.
            self._end = Finalize(self, _ended, (self._workers,), exitpriority=1)

    def __call__(self, step: int) -> Buffer:
        """Return the batch of `step`; the next call may overwrite it. Raises LoaderFailed when a worker died."""
        self.start()
        if not self._workers:
            buffer = np.frombuffer(self._memory[0], dtype=np.uint8)
            self._job(step, buffer)
            return buffer
        while self._requests and self._requests[0].step != step:  # prepared in vain
            self._free.append(self._finished().slot)
        self._request_from(self._requests[-1].step + 1 if self._requests else step)
        slot = self._finished().slot
        self._request_from(self._requests[-1].step + 1)
        self._free.append(slot)  # taken again by the next call, when this batch has been used
        return np.frombuffer(self._memory[slot], dtype=np.uint8)

    def _request_from(self, step: int) -> None:
        """Have the next steps prepared."""
        for ahead in range(self._ahead - len(self._requests)):
            worker = self._workers[(step + ahead) % self._count]
            request = _Request(step + ahead, self._free.pop(0), worker)
            try:
                worker.pipe.send((request.step, request.slot))
            except OSError:
                raise _died(worker) from None
            self._requests.append(request)

    def _finished(self) -> _Request:
        """Wait for the oldest request."""
        request = self._requests.popleft()
        try:
            request.worker.pipe.recv()
        except (EOFError, OSError):
            raise _died(request.worker) from None
        return request

    def close(self) -> None:
        """End the workers."""
        if self._workers:
            self._end()
            self._workers, self._free = [], []
            self._requests.clear()


def _started(job: Job, memory: Sequence[Memory], count: int) -> list[_Worker]:
    resource_tracker.ensure_running()  # else it is started below, and unblocks signals
    # Blocked from a worker's first instruction on: a terminal or a scheduler may signal it too, but when to stop is
    # for the main process to say.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        workers = []
        for number in range(count):
            here, there = _SPAWN.Pipe()
            process = _SPAWN.Process(target=_work, args=(there, memory), name=f"loader-{number}", daemon=True)
            process.start()
            there.close()  # held by the worker alone: it ends with it
            workers.append(_Worker(process, here))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for worker in workers:
        worker.pipe.send(job)
    return workers


def _work(pipe: "Connection[Any, Any]", memory: Sequence[Memory]) -> None:
    """Fill slots as asked, until the main process closes the pipe or is gone."""
    slots = [np.frombuffer(part, dtype=np.uint8) for part in memory]
    try:
        job: Job = pipe.recv()
        while True:
            step, slot = pipe.recv()
            job(step, slots[slot])
            pipe.send(step)
    except (EOFError, ConnectionError):
        return


def _ended(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.pipe.close()
    for worker in workers:
        worker.process.join(_SECONDS_TO_END)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()


def _died(worker: _Worker) -> LoaderFailed:
    worker.process.join(_SECONDS_TO_END)
    code = worker.process.exitcode
    how = f"was killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"
    return LoaderFailed(
        f"A process that prepares batches {how}: continue from the last checkpoint with --resume, with fewer "
        "--workers if memory ran out."
    )


def _pin(memory: Sequence[Memory]) -> None:
    import torch

    cuda = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    for part in memory:
        torch.cuda.check_error(cuda.cudaHostRegister(ctypes.addressof(part), ctypes.sizeof(part), 0))


def _unpin(memory: Sequence[Memory]) -> None:
    import torch

    cuda = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    for part in memory:
        cuda.cudaHostUnregister(ctypes.addressof(part))
