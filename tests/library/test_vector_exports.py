"""Exported vectors are read with the tools of others, and every photo finds its own in them."""

import csv
import json
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import faiss
import numpy as np
import pytest

from mocosearch.cli import main
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, EncoderIdentity, FileStamp, SkippedPhoto

DIM = 24
NAMES = [
    b"a.jpg",
    b"sub/b,c.jpg",
    b'"quoted".jpg',
    b"new\r\nline.jpg",
    b"caf\xe9.jpg",
    "ä😀\u2028.jpg".encode(),
    b"gone.jpg",
]
Export = Callable[..., tuple[str, str]]


def vector_of(name: bytes) -> np.ndarray:
    seed = int.from_bytes(blake2b(name, digest_size=4).digest())
    vector = np.random.default_rng(seed).normal(size=DIM)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of an index of NAMES, of which the last is gone, one was changed and one more could not be read."""
    folder = tmp_path / "photos" / ".mocosearch"
    with ImageIndex.create(folder, root=folder.parent, encoder=EncoderIdentity("0" * 16, DIM, "dice")) as index:
        photos = [
            EmbeddedPhoto(FileStamp(name, 9, 9), b"", 640, 480, "2024-02-29T12:00:00", vector_of(name))
            for name in NAMES
        ]
        index.commit([EmbeddedPhoto(photos[0].stamp, b"", 640, 480, None, -photos[0].vector), *photos[1:]])
        index.commit(photos[:1], [SkippedPhoto(FileStamp(b"text.jpg", 9, 9), "not-an-image", "", "")], [len(NAMES)])
    return folder.parent


@pytest.fixture
def export(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Export:
    """Type `mocosearch export` in an empty folder."""
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")

    def run(*arguments: str | Path, code: int = 0) -> tuple[str, str]:
        with pytest.raises(SystemExit) as end:
            main(["export", *map(str, arguments)])
        assert end.value.code == code
        return tuple(capsys.readouterr())

    return run


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        return list(csv.DictReader(file))


def test_a_plain_faiss_file_finds_every_photo_by_its_own_vector(export: Export, root: Path) -> None:
    out, err = export("index", root, "--out", "v.faiss")
    assert out == "v.faiss\nv.csv\n"
    assert "6 of 24 numbers, by 0000000000000000" in err
    index = faiss.read_index("v.faiss")
    assert (index.ntotal, index.d) == (6, DIM)
    names = {int(row["id"]): os.fsencode(row["path"]) for row in rows_of(Path("v.csv"))}
    assert sorted(names.values()) == sorted(NAMES[:-1])
    for photo_id, name in names.items():
        [[score]], [[found]] = index.search(vector_of(name)[None], 1)
        assert found == photo_id
        assert score == pytest.approx(1, abs=1e-3)
        assert np.linalg.norm(index.reconstruct(photo_id)) == pytest.approx(1, abs=1e-6)


def test_embeddings_and_their_list_are_in_the_same_order(export: Export, root: Path) -> None:
    out, _ = export("embeddings", root, "--out", "v.npy", "--format", "jsonl")
    assert out == "v.npy\nv.jsonl\n"
    vectors = np.load("v.npy")
    rows = [json.loads(line) for line in Path("v.jsonl").read_text("ascii").splitlines()]
    assert (vectors.shape, vectors.dtype) == ((6, DIM), np.float32)
    assert np.allclose(vectors, [vector_of(os.fsencode(row["path"])) for row in rows], atol=1e-3)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    first = {"id": 1, "path": "a.jpg", "width": 640, "height": 480, "taken_at": "2024-02-29T12:00:00"}
    assert rows[0] == first
    export("embeddings", root, "--out", "w.npy")
    assert [os.fsencode(row["path"]) for row in rows_of(Path("w.csv"))] == [os.fsencode(row["path"]) for row in rows]


@pytest.mark.parametrize(("there", "why"), [("v.npy", ":"), ("v.csv", ", where the list for 'v.npy' goes:")])
def test_no_file_is_replaced_unless_force_is_given(export: Export, root: Path, there: str, why: str) -> None:
    Path(there).write_text("precious")
    out, err = export("embeddings", root, "--out", "v.npy", code=1)
    assert out == ""
    assert f"'{there}' is there already{why}" in err.splitlines()[-1]
    assert [path.name for path in Path().iterdir()] == [there]
    assert Path(there).read_text() == "precious"
    export("embeddings", root, "--out", "v.npy", "--force")
    export("embeddings", root, "--out", "new/folder/v.npy")
    assert len(rows_of(Path("v.csv"))) == len(np.load("v.npy")) == 6


def test_what_cannot_be_written_is_one_line(export: Export, root: Path) -> None:
    for arguments, words in (
        (("index", root, "--out", "v.csv"), "call it 'v.csv.faiss'"),
        (("embeddings", root, "--out", root / ".mocosearch/lock/v.npy"), "choose another name"),
    ):
        out, err = export(*arguments, code=1)
        assert out == ""
        assert words in err.splitlines()[-1]
    with ImageIndex.open(root / ".mocosearch", writable=True) as index:
        index.commit(missing=range(1, len(NAMES)))
    assert "holds no photos" in export("index", root, "--out", "v.faiss", code=1)[1]
    assert list(Path().iterdir()) == []
