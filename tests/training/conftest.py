from pathlib import Path

import pytest

from mocosearch.recipes import Recipe
from tests.training.photos import load_tiny_recipe, write_photos


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    write_photos(folder)
    return folder


@pytest.fixture
def tiny_recipe() -> Recipe:
    return load_tiny_recipe()
