"""Every block of docs/python.md runs, in its order, and `import mocosearch` costs next to nothing."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import mocosearch
from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.nets import build_backbone

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
TAKEN_TAG = 0x0132


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the page speaks of."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("photos/beach/0.jpg", "photos/beach/1.jpg", "photos/beach/2.jpg", "photos/3.jpg", "query.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif[TAKEN_TAG] = "2024:05:31 18:30:00"
        Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)).save(path, exif=exif)
    torch.manual_seed(0)
    card = EncoderCard("resnet18", False, 128, "dice", 8, 0, "none", "")
    sizes = Preprocessing(36, 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    Encoder(build_backbone("resnet18"), card, sizes, torch.device("cpu")).save(tmp_path / "runs" / "mine" / "encoder")
    return tmp_path


def test_every_block_of_the_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    namespace: dict[str, Any] = {}
    printed = []
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
        printed.append(capsys.readouterr().out)
    assert len(blocks) > 8
    assert "4 embedded, 0 skipped" in printed[1]
    assert printed[2] == "{'indexed': 4, 'skipped': 0, 'missing': 0}\n"
    assert len(printed[3].splitlines()) == 3
    assert namespace["vectors"].shape == (3, 512)
    assert namespace["hits"][0].photo.path == b"beach/0.jpg"
    assert printed[-1].startswith("There is no folder 'nowhere'")


def test_every_public_name_is_there_and_listed() -> None:
    for name in mocosearch.__all__:
        assert getattr(mocosearch, name).__name__ == name
    assert set(mocosearch.__all__) < set(dir(mocosearch))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = mocosearch.Nonsense  # type: ignore[attr-defined]


def test_importing_mocosearch_loads_nothing_heavy_until_it_is_used() -> None:
    program = (
        "import sys, mocosearch; heavy = {'torch', 'numpy', 'faiss', 'PIL', 'sqlite3', 'click'}\n"
        "print(heavy & set(sys.modules)); mocosearch.Library; print('torch' in sys.modules)\n"
        "mocosearch.Encoder; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\nFalse\nTrue\n"
