"""The command in real processes, with a home of its own, and photos for it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from tests import warm


class Mocosearch:
    """Runs the command with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"MOCOSEARCH_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start the command, to be waited for, sent signals and looked at."""
        command = [sys.executable, "-m", "mocosearch", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, **pipes)

    def __call__(self, *arguments: str | Path, code: int = 0) -> tuple[str, str]:
        """Run the command to its end; return stdout and stderr."""
        done = warm.completed("mocosearch", arguments, folder=self.folder, environment=self.environment)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr


def write_photos(folder: Path, count: int = 16) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(count):
        Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return folder


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]
