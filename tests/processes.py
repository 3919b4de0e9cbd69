"""What /proc tells of processes."""

import time
from pathlib import Path


def spawned_by(parent: int, doing: bytes = b"spawn_main") -> list[int]:
    """The children of `parent` whose command line says `doing`, by default those that multiprocessing spawned.

    Not its tracker of shared memory, which stays.
    """
    found = []
    for entry in Path("/proc").iterdir():
        try:
            is_child = entry.name.isdigit() and f"PPid:\t{parent}\n" in (entry / "status").read_text()
            if is_child and doing in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it ended meanwhile
            continue
    return sorted(found)


def are_gone(processes: list[int], *, within: float) -> bool:
    """Wait until none of the processes runs any more."""
    deadline = time.monotonic() + within
    while any(map(_runs, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _runs(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def libraries_of(process: int) -> set[str]:
    """Names of the files that are mapped into a process."""
    return {Path(line.split(maxsplit=5)[-1]).name for line in Path(f"/proc/{process}/maps").read_text().splitlines()}
