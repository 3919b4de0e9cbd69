"""The most memory that a process and all below it held at once."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self


class PeakMemory(threading.Thread):
    """Looks ten times a second, inside its block, how much anonymous memory this process and those below it hold."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._end = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, _anonymous_bytes(os.getpid()))
            if self._end.wait(0.1):
                return


def _anonymous_bytes(root: int) -> int:
    total = 0
    with suppress(OSError, KeyError):  # it ended meanwhile
        status = Path(f"/proc/{root}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        total = 1024 * int(fields["RssAnon"].split()[0])
        for children in Path(f"/proc/{root}/task").glob("*/children"):
            total += sum(_anonymous_bytes(int(child)) for child in children.read_text().split())
    return total
