"""Types commands, and makes the photos and encoders for them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.cli import main
from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.nets import build_backbone

# As the command line, but with a commit after every photo and a pause before it, so that there is time to interfere.
SLOW = (
    "import time\nfrom mocosearch.update import work as update_work\n"
    "update_work.COMMIT_SECONDS = 0.0\nadd = update_work.Work.add\n"
    "update_work.Work.add = lambda *a: (time.sleep(0.05), add(*a))[1]\n"
    "from mocosearch.cli import main\nmain()"
)


def save_encoder(folder: Path, seed: int) -> str:
    """Save an untrained encoder and return its fingerprint."""
    torch.manual_seed(seed)
    card = EncoderCard("resnet18", False, 128, "/some/photos", 2000, 100 + seed, "moco_v2_small", "")
    sizes = Preprocessing(36, 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    encoder = Encoder(build_backbone("resnet18"), card, sizes, torch.device("cpu"))
    encoder.save(folder)
    return encoder.fingerprint


def write_photo(path: Path, seed: int) -> None:
    patches = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(patches).resize((64, 48), Image.Resampling.NEAREST).save(path, quality=95)


class Terminal:
    """Types commands and looks at what comes of them: in this process, or, to be interrupted, in one of their own."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes], home: Path, folder: Path
    ) -> None:
        for name, value in {"OMP_NUM_THREADS": "1", "MOCOSEARCH_HOME": str(home), "COLUMNS": "100"}.items():
            monkeypatch.setenv(name, value)
        self.monkeypatch = monkeypatch
        self.capture = capture
        self.folder = folder

    def __call__(self, *arguments: str | Path, expect: int = 0, cwd: Path | None = None) -> tuple[str, str]:
        """Run `mocosearch` to its end; return stdout and stderr."""
        self.monkeypatch.chdir(cwd or self.folder)
        self.capture.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = (stream.decode("utf-8", "surrogateescape") for stream in self.capture.readouterr())
        assert (end.value.code or 0) == expect, err
        return out, err

    def start(self, *arguments: str | Path) -> "subprocess.Popen[str]":
        """Start a slow `mocosearch` in a process of its own."""
        command = [sys.executable, "-c", SLOW, *map(str, arguments)]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, text=True, cwd=self.folder, **streams)


def error_line(stderr: str) -> str:
    """Return the one line that an error is."""
    [line] = stderr.splitlines()
    return line
