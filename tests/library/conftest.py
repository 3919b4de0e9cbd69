"""A library of six photos, with user folders of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mocosearch.encoders import Encoder
from mocosearch.library import Library
from tests.library.six_photos import make_encoder, write_photo


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return make_encoder(0)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Six photos, one of them in a sub folder."""
    root = tmp_path / "photos"
    for number in range(5):
        write_photo(root, b"%d.jpg" % number, number)
    write_photo(root, b"sub/5.png", 5)
    return root


@pytest.fixture
def library(root: Path, encoder: Encoder) -> Iterator[Library]:
    """The six photos, indexed, open for writing."""
    with Library.create(root, encoder) as library:
        library.update()
        yield library
