from pathlib import Path

import pytest

from mocosearch.recipes import Recipe
from tests.training.photos import load_tiny_recipe, write_photos
from tests.training.runs import make, train


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    write_photos(folder)
    return folder


@pytest.fixture
def tiny_recipe() -> Recipe:
    return load_tiny_recipe()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run over the same photos as the fixture `photos`, to compare the others with."""
    folder = tmp_path_factory.mktemp("straight")
    (folder / "photos").mkdir()
    write_photos(folder / "photos")
    train(make(folder / "photos", load_tiny_recipe(), folder / "run"))
    return folder / "run"
