"""The blocks of a page as one script for bash, and its run."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.documentation import stand_in
from tests.documentation.pages import ROOT, blocks, name
from tests.warm import warm

SECONDS = 500
# Says of each command, before it runs, where it stands; stands on the line of the page's title.
_FIRST_LINE = "set -Eeuo pipefail; trap 'echo \"$PAGE:$LINENO: $BASH_COMMAND\" >&2' DEBUG"


def script(page: Path) -> str:
    """The page with everything but the blocks that run left empty, so that bash counts lines as the page does.

    The fences of a block of Python become a here-document: each such block is a program of its own.
    """
    lines = [""] * (len(page.read_text(encoding="utf-8").splitlines()))
    for block in blocks(page):
        if block.runs:
            assert block.line > 1, f"{block}: the first line of a page is its title"
            end = block.line + len(block.lines)  # the index of the closing fence
            lines[block.line : end] = block.lines
            if block.language == "python":
                lines[block.line - 1], lines[end] = "python - <<'```'", "```"
    lines[0] = _FIRST_LINE
    return "\n".join(lines) + "\n"


def run_page(page: Path, world: Path) -> str:
    """Run the blocks of a page in its world and return what they say; an AssertionError names the one that fails."""
    beside = world.parent
    background = stand_in.Background(beside / "background")
    (beside / "background").mkdir()
    command = beside / "bin" / "mocosearch"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stand_in.__file__}" "$@"\n')
    command.chmod(0o755)
    (beside / "page.sh").write_text(script(page), encoding="utf-8")
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("MOCOSEARCH_", "SLURM_"))},
        "PATH": os.pathsep.join((str(command.parent), str(Path(sys.executable).parent), os.environ["PATH"])),
        "PYTHONPATH": str(ROOT),  # for `python -m bench...` and the stand-in
        "HOME": str(beside / "home"),
        "MOCOSEARCH_HOME": str(beside / "home"),
        "CURL_HOME": str(beside / "background"),
        "STAND_IN": str(beside / "background"),
        "WARM": warm(),
        "PAGE": name(page),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    with (beside / "said").open("w") as said:
        shell = subprocess.Popen(
            [str(shutil.which("bash")), str(beside / "page.sh")],
            cwd=world,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            code = shell.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            code = shell.wait()
        try:
            if code == 0:
                background.end()
        finally:
            background.kill()
    told = (beside / "said").read_text(errors="replace")
    # Above the output of what failed stands, as of each command, its page, line and words.
    assert code == 0, f"{name(page)}: the last of these commands failed (exit code {code})\n{told[-4000:]}"
    assert "Traceback" not in told, told
    return told
