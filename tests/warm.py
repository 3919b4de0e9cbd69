"""Programs in processes that have imported torch before they begin: that takes longer than most of what they do.

`completed` and `run` ask a process that has imported torch and has done nothing else to fork. The fork is a process
like any other: its arguments, folder, environment, files, session and exit code are its own, and it imports all of
mocosearch anew. What has to be seen importing, or is sent signals, is better a process from the start.
"""

import functools
import gc
import json
import os
import runpy
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def warm() -> str:
    """Name the warm process of this one, which begins when it is first asked for and ends with this one."""
    return _begun()[0]


@functools.cache
def _begun() -> tuple[str, "subprocess.Popen[bytes]"]:
    name = secrets.token_hex(16)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # else OpenBLAS starts threads, which a fork lacks
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}  # who reads stdin sees this process end
    process = subprocess.Popen([sys.executable, "-m", "tests.warm", name], cwd=ROOT, env=environment, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return name, process


def completed(
    module: str, arguments: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str] = os.environ
) -> "subprocess.CompletedProcess[str]":
    """Run `python -m module` to its end, in a fork of our warm process, and capture what it says."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        files, place = (0, out.fileno(), err.fileno()), {"folder": folder, "environment": environment}
        code = run(warm(), module, arguments, **place, files=files, seconds=250)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([module, *arguments], code, out.read(), err.read())


def run(
    warm: str,
    module: str,
    arguments: Sequence[str | Path],
    *,
    folder: str | Path,
    environment: Mapping[str, str],
    files: tuple[int, int, int],
    seconds: float,
) -> int:
    """Run `python -m module` in `folder`, with `files` as stdin, stdout and stderr, and return its exit code.

    It is killed, with all that it started, when it takes more than `seconds` (TimeoutError) and when this process ends.
    """
    wanted = {"module": module, "arguments": [str(argument) for argument in arguments], "folder": str(folder)}
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(seconds)
        asked.connect(f"\0{warm}")
        socket.send_fds(asked, [b"."], files)
        asked.sendall(json.dumps(wanted | {"environment": dict(environment)}).encode() + b"\n")
        return int(asked.recv(16))


def main(name: str) -> None:
    """Be the warm process; in each of its forks, the program that was asked for."""
    import matplotlib.figure  # noqa: F401
    import torchvision  # noqa: F401

    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork would lack the other threads"
    gc.freeze()  # else each fork, as it ends, goes through all that was imported, and so copies it
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        print("ready", flush=True)
        program = _forked(listener)
    if program:
        sys.argv[1:] = program["arguments"]
        runpy.run_module(program["module"], run_name="__main__", alter_sys=True)


def _forked(listener: socket.socket) -> dict[str, Any] | None:
    """Fork for each program that is asked for; return it in the fork that is to run it, and here, at the end, None."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        asked, _ = listener.accept()
        with asked:
            if os.fork() == 0:
                return _answered(asked)
    return None


def _answered(asked: socket.socket) -> dict[str, Any]:
    """Fork a program, which returns from here, and answer with its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(asked, 1, 3)
    program: dict[str, Any] = json.loads(asked.makefile("rb").readline())
    forked = os.fork()
    if forked == 0:
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(program["environment"])
        os.chdir(program["folder"])
        sys.path[0] = str(Path.cwd())  # as with `python -m`
        return program
    ended = os.pidfd_open(forked)
    if ended in select.select([asked, ended], [], [])[0]:
        asked.sendall(str(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])).encode())
    else:  # who asked is gone
        os.killpg(forked, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
