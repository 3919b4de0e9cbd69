"""A library of real tiles with a small untrained encoder, and `mocosearch serve` on it in a process of its own."""

import io
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))  # serving.py and browsing.py are shared by the tests of this folder
from browsing import browser, open_page  # noqa: F401 - fixtures
from serving import Serving, serving

from mocosearch.encoders import EncoderCard, Preprocessing, load_encoder, save_encoder
from mocosearch.library import Library
from mocosearch.nets import build_backbone

TILES_A_CLASS = 6


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ResNet-18 as it is before training: it already sees colors and textures."""
    import torch

    torch.manual_seed(0)
    backbone = build_backbone("resnet18")
    state = {f"backbone.{name}": tensor for name, tensor in backbone.state_dict().items()}
    card = EncoderCard("resnet18", False, 512, "nothing", 0, 0, "untrained", "2026-01-01T00:00:00")
    folder = tmp_path_factory.mktemp("encoder") / "encoder"
    save_encoder(folder, state, card, Preprocessing(64, 64, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 satellite tiles in class folders, and a tall and a wide picture."""
    root = tmp_path_factory.mktemp("photos")
    archive = zipfile.ZipFile(io.BytesIO((files("mocosearch") / "sample" / "eurosat_tiles.zip").read_bytes()))
    taken: dict[str, int] = {}
    for name in archive.namelist():
        kind = name.partition("/")[0]
        if name.endswith(".jpg") and taken.get(kind, 0) < TILES_A_CLASS:
            taken[kind] = taken.get(kind, 0) + 1
            archive.extract(name, root)
    Image.linear_gradient("L").resize((300, 900)).convert("RGB").save(root / "tall.png")
    Image.radial_gradient("L").resize((1200, 200)).convert("RGB").save(root / "wide & <b>bold<b>.png")
    return root


@pytest.fixture(scope="session")
def make_library(encoder_folder: Path) -> Callable[[Path], None]:
    """Index a folder of photos."""

    def make(root: Path) -> None:
        with Library.create(root, load_encoder(encoder_folder)) as library:
            if any(root.glob("**/*.*g")):
                library.update()

    return make


@pytest.fixture(scope="session")
def indexed(photos: Path, make_library: Callable[[Path], None]) -> Path:
    """The photos, indexed. Only for tests that leave them as they are."""
    make_library(photos)
    return photos


@pytest.fixture
def own_library(indexed: Path, tmp_path: Path) -> Path:
    """A copy of the indexed photos that a test may change."""
    return Path(shutil.copytree(indexed, tmp_path / "own"))


@pytest.fixture(scope="session")
def server(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The page of the indexed photos, one for all tests; it must still serve when they are over."""
    with serving(indexed, tmp_path_factory.mktemp("server")) as running:
        yield running
        with running.client() as client:
            assert client.get("/healthz").json() == {"status": "ok"}
        assert "Traceback" not in running.log.read_text()
