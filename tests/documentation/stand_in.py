"""`mocosearch` as the blocks of a page find it: the real command, except that nothing takes long and nothing waits.

train           takes half a second, whatever `--minutes` the page says (`--resume` has what is left of its run), and
                no process beside it makes batches, which changes no result
index --watch   is ended, as by Ctrl-C, as soon as it watches
serve           goes on in the background, as in another terminal, until the next one or the end of the page. It listens
                at a free port, to which curl is led whatever port it asks for; a password that it asks for is typed

Everything else is the real command and nothing more; what ends by itself runs in a process that has torch imported
already (see tests/warm.py). What runs in the background has a session of its own, without a terminal, and lies in the
folder $STAND_IN: its log, its process and, in the end, its exit status.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.warm import run

MOCOSEARCH = (sys.executable, "-m", "mocosearch")
MINUTES = "0.01"
PASSWORD = "correct horse\n"
SECONDS = 200  # to be ready or to end, on a busy machine
_CURLRC = 'connect-to = "::127.0.0.1:{}"\nfail-with-body\n'  # without, an answer of 404 is a success
# As after a line in a terminal: Ctrl-C goes to the shell and to what it runs, and the shell says how that ended.
_SHELL = 'trap : INT; "$@"; echo $? > "$0.new"; mv "$0.new" "$0"'


class Background:
    """The one command that goes on behind a page."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.session = folder / "session"
        self.status = folder / "status"
        self.typed = folder / "typed"

    def start(self, arguments: list[str], ready: str) -> None:
        """Start a command and wait until it has said `ready`; SystemExit when it ends before."""
        self.status.unlink(missing_ok=True)
        self.typed.write_text(PASSWORD)
        with self.log.open("w") as log, self.typed.open() as typed:
            command = ["sh", "-c", _SHELL, str(self.status), *MOCOSEARCH, *arguments]
            shell = subprocess.Popen(command, stdin=typed, stdout=log, stderr=log, start_new_session=True)
        self.session.write_text(str(shell.pid))
        self._wait(lambda: self.status.exists() or ready in self.log.read_text())
        sys.stdout.write(self.log.read_text())
        if self.status.exists():
            self.session.unlink()
            sys.exit(int(self.status.read_text()) or f"It ended by itself: {arguments}")

    def end(self) -> None:
        """End the command by Ctrl-C, if one goes on; SystemExit, with its log, when it does not take that well."""
        if not self.session.exists():
            return
        os.killpg(int(self.session.read_text()), signal.SIGINT)
        self._wait(self.status.exists)
        self.session.unlink()
        if int(self.status.read_text()) not in (0, 130) or "Traceback" in self.log.read_text():
            sys.exit(f"Ctrl-C ended it with {self.status.read_text()}{self.log.read_text()}")

    def kill(self) -> None:
        """Leave nothing behind."""
        if self.session.exists():
            os.killpg(int(self.session.read_text()), signal.SIGKILL)

    def _wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not until():
            if time.monotonic() > deadline:
                sys.exit(f"Nothing happened for {SECONDS} seconds.\n{self.log.read_text()}")
            time.sleep(0.02)


def main(arguments: list[str]) -> None:
    background = Background(Path(os.environ["STAND_IN"]))
    if arguments[:1] == ["serve"]:
        background.end()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        background.start([*arguments, "--port", str(port)], ready="http://")
        (Path(os.environ["CURL_HOME"]) / ".curlrc").write_text(_CURLRC.format(port))
    elif arguments[:1] == ["index"] and "--watch" in arguments:
        background.end()
        background.start(arguments, ready="Watching")
        background.end()
    else:
        if arguments[:1] == ["train"]:
            arguments = [*arguments, "--workers", "0"]
            if "--resume" not in arguments:
                arguments = [*arguments, "--minutes", MINUTES]
        place = {"folder": Path.cwd(), "environment": os.environ}
        sys.exit(run(os.environ["WARM"], "mocosearch", arguments, **place, files=(0, 1, 2), seconds=SECONDS))


if __name__ == "__main__":
    main(sys.argv[1:])
