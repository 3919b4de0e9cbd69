"""The most memory that a process and all below it held at once. Knows no torch."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self


class PeakMemory(threading.Thread):
    """Looks again and again, inside its block, how much anonymous memory this process and those below it hold.

    In bytes: the `peak`, what the block `gained` in the end, and what it had `gained_at_peak`.
    """

    def __init__(self, seconds: float = 0.1) -> None:
        """`seconds`: between two looks."""
        super().__init__(daemon=True)
        self._seconds = seconds
        self._end = threading.Event()
        self.peak = self._before = anonymous_bytes(os.getpid())
        self.gained = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()
        end = anonymous_bytes(os.getpid())
        self.peak, self.gained = max(self.peak, end), end - self._before

    @property
    def gained_at_peak(self) -> int:
        return self.peak - self._before

    def run(self) -> None:
        while not self._end.wait(self._seconds):
            self.peak = max(self.peak, anonymous_bytes(os.getpid()))


def anonymous_bytes(root: int) -> int:
    """Return what the process `root` and all below it hold; 0 when it has ended."""
    total = 0
    with suppress(OSError, KeyError):  # it ended meanwhile
        status = Path(f"/proc/{root}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        total = 1024 * int(fields["RssAnon"].split()[0])
        for children in Path(f"/proc/{root}/task").glob("*/children"):
            total += sum(anonymous_bytes(int(child)) for child in children.read_text().split())
    return total
