"""The process that decodes for a pool: it reads from its stdin what to call, and writes to its stdout what came of it.

A decoder in C that runs wild takes down this process and nothing else. An alarm of the kernel, which no loop in C can
hold up, ends it when a photo takes too long. It ends with the process that started it, however that one ended.
"""

import fcntl
import os
import pickle
import resource
import select
import signal
import sys
import threading
from typing import BinaryIO

from PIL import AvifImagePlugin

from mocosearch.images.decode import Undecodable


def main(turns: int) -> None:
    """Answer requests until there are none. `turns`: descriptor of a file, the same for all processes of a pool."""
    requests, answers = sys.stdin.buffer, _stdout_for_answers_only()
    _heed_only_the_pool()
    seconds = pickle.load(requests)
    _answer(answers, None)  # ready: from here on it is a photo's fault when this process ends
    giants = OneGiantAtATime(turns)
    while True:
        try:
            work = pickle.load(requests)
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            answer = work(giants=giants)
        except Undecodable as error:
            answer = error
        signal.setitimer(signal.ITIMER_REAL, 0)
        _answer(answers, answer)


class OneGiantAtATime:
    """Lets one process of the pool at a time into the block; the time that it waits does not count."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        remaining, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        fcntl.lockf(self._turns, fcntl.LOCK_EX)  # a process that dies lets go of it
        signal.setitimer(signal.ITIMER_REAL, remaining)

    def __exit__(self, *_: object) -> None:
        fcntl.lockf(self._turns, fcntl.LOCK_UN)


def _stdout_for_answers_only() -> BinaryIO:
    """Take stdout away from the decoders, and stderr, which libtiff fills with chatter about damaged files."""
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    return answers


def _heed_only_the_pool() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # when to stop is for the main process to say
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no core file for every broken photo
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # there is a process for every core
    threading.Thread(target=_end_with_the_pool, daemon=True).start()


def _end_with_the_pool() -> None:
    """End this process, also in the middle of a photo, when the other end of stdin is gone."""
    poll = select.poll()
    poll.register(0, 0)  # asks for nothing but the end, which is always told
    poll.poll()
    os._exit(0)


def _answer(answers: BinaryIO, answer: object) -> None:
    pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
    answers.flush()
