import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # generated_photos is imported by tests and run as a subprocess

from generated_photos import ENCODER

from mocosearch_index.image_index import ImageIndex


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the index of a library in `tmp_path` goes."""
    return tmp_path / ".mocosearch"


@pytest.fixture
def index(folder: Path) -> Iterator[ImageIndex]:
    """An empty index, open for writing."""
    with ImageIndex.create(folder, root=folder.parent, encoder=ENCODER) as index:
        yield index
