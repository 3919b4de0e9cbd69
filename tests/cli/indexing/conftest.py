from pathlib import Path

import pytest

from tests.cli.indexing.terminal import Terminal, save_encoder, write_photo


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two encoders: their folders and fingerprints."""
    folder = tmp_path_factory.mktemp("encoders")
    return {str(folder / str(seed)): save_encoder(folder / str(seed), seed) for seed in range(2)}


@pytest.fixture
def encoder(encoders: dict[str, str]) -> str:
    return next(iter(encoders))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Five photos."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(5):
        write_photo(folder / f"{number}.jpg", number)
    return folder


@pytest.fixture
def mocosearch(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Terminal:
    """Type a command in a folder without a library."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    return Terminal(monkeypatch, capfdbinary, tmp_path / "home", elsewhere)
