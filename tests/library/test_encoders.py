"""An index belongs to one encoder, and keeps a copy of it."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from mocosearch import user_folders
from mocosearch.encoders import Encoder
from mocosearch.errors import BadCheckpoint, NoEncoder
from mocosearch.library import Library
from mocosearch_index.errors import (
    EncoderMismatch,
)
from tests.library.six_photos import best_match, make_encoder


def test_another_encoder_is_refused_with_both_fingerprints(library: Library, encoder: Encoder, tmp_path: Path) -> None:
    other = make_encoder(1)
    other.save(tmp_path / "other")
    with pytest.raises(EncoderMismatch, match=f"{encoder.fingerprint}.*{other.fingerprint}.*leave out --encoder"):
        library.keep_encoder(other)
    library.close()
    with pytest.raises(EncoderMismatch) as error:
        Library.open_or_create(library.root, str(tmp_path / "other"))
    assert error.value.exit_code == 4
    shutil.rmtree(library.index.folder / "encoder")
    shutil.copytree(tmp_path / "other", library.index.folder / "encoder")
    with Library.open(library.root) as tampered, pytest.raises(EncoderMismatch):
        tampered.search([Image.new("RGB", (40, 40))], k=1)


def test_which_encoder_is_taken_and_why(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(NoEncoder, match=r"mocosearch train.*moco-v2-800ep"):
        Library.open_or_create(root)
    user_folders.set_current_encoder(tmp_path / "run")
    with pytest.raises(NoEncoder, match="is gone"):
        Library.open_or_create(root)
    assert not (root / ".mocosearch").exists()
    encoder.save(tmp_path / "run" / "encoder")
    library, why = Library.open_or_create(root)
    assert (library.encoder.fingerprint, why) == (encoder.fingerprint, "trained last")
    library.update()
    library.close()
    make_encoder(2).save(tmp_path / "newer")
    user_folders.set_current_encoder(tmp_path / "newer")
    library, why = Library.open_or_create(root)
    assert (library.encoder.fingerprint, why) == (encoder.fingerprint, "recorded in the index")
    library.close()
    library, why = Library.open_or_create(root, index_dir=tmp_path / "second", encoder=str(tmp_path / "newer"))
    assert (library.encoder.fingerprint, why) != (encoder.fingerprint, "as named")
    library.close()


def test_a_library_whose_encoder_was_lost_takes_it_again_when_named(library: Library, encoder: Encoder) -> None:
    library.close()
    shutil.rmtree(library.index.folder / "encoder")
    with Library.open(library.root) as without, pytest.raises(NoEncoder, match="--encoder"):
        without.search([Image.new("RGB", (40, 40))], k=1)
    with Library.open(library.root, writable=True) as again:
        again.keep_encoder(encoder)
        assert best_match(again, b"0.jpg") == b"0.jpg"


@pytest.mark.parametrize("damage", ["killed while copying", "card", "tensors", "another"])
def test_a_damaged_copy_of_the_encoder_is_made_again_when_it_is_named(
    library: Library, encoder: Encoder, tmp_path: Path, damage: str
) -> None:
    library.close()
    copy = library.index.folder / "encoder"
    if damage in ("card", "killed while copying"):
        (copy / "encoder.json").unlink()
    if damage == "killed while copying":
        (copy / "model.safetensors").rename(copy / ".model.safetensors.01234567.partial")
    if damage == "tensors":
        os.truncate(copy / "model.safetensors", 100_000)
    if damage == "another":
        make_encoder(1).save(copy)
    else:
        with (
            Library.open(library.root) as damaged,
            pytest.raises(NoEncoder, match=f"--encoder E, naming {encoder.fingerprint}"),
        ):
            damaged.search([Image.new("RGB", (40, 40))], k=1)
    encoder.save(tmp_path / "named")
    healed, _ = Library.open_or_create(library.root, str(tmp_path / "named"))
    with healed:
        assert best_match(healed, b"0.jpg") == b"0.jpg"
    assert sorted(path.name for path in copy.iterdir()) == ["encoder.json", "model.safetensors"]


def test_a_bad_encoder_leaves_no_library_bound_to_it(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    bad = make_encoder(3)
    torch.nn.init.constant_(next(bad.network.parameters()), float("nan"))
    with Library.create(root, bad) as library, pytest.raises(BadCheckpoint):
        library.update()
    assert not (root / ".mocosearch").exists()
    with Library.create(root, encoder) as library:
        assert library.update().embedded == 6
