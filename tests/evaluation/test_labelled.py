"""Class folders: what is a class, and which folders cannot be scored."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch.errors import NoPhotos, NotLabelled
from mocosearch.evaluation.labelled import LabelledPhotos, find_labelled


def photo(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), "teal").save(path, "JPEG")


def test_the_class_is_the_relative_path_of_the_folder_that_holds_the_photo(tmp_path: Path) -> None:
    for name in ("fruit/apple/1.jpg", "fruit/apple/2.JPG", "fruit/pear/1.jpg", "cup/a.jpg", ".hidden/x.jpg"):
        photo(tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a photo")
    found = find_labelled(tmp_path)
    assert found.classes == ["cup", "fruit/apple", "fruit/pear"]
    assert found.paths == [tmp_path / name for name in ("cup/a.jpg", "fruit/apple/1.jpg", "fruit/apple/2.JPG",
                                                        "fruit/pear/1.jpg")]  # fmt: skip
    assert found.labels.dtype == np.int64
    assert found.labels.tolist() == [0, 1, 1, 2]


def test_folder_names_need_not_be_text(tmp_path: Path) -> None:
    for name in (b"a\xff", b"b\nb"):
        folder = os.fsencode(tmp_path) + b"/" + name
        for number in range(2):
            photo(Path(os.fsdecode(folder)) / f"{number}.jpg")
    found = find_labelled(tmp_path)
    assert found.classes == ["a\\xff", "b\\nb"]
    assert all(path.is_file() for path in found.paths)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ([], NoPhotos, "one folder of photos for each class"),
        (["1.jpg", "2.jpg"], NotLabelled, "2 of 2 photos lie directly in"),
        (["1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg"], NotLabelled, "1 of 4 photos lie directly in"),
        (["a/1.jpg", "a/2.jpg"], NotLabelled, "two or more folders"),
        (["a/1.jpg", "b/2.jpg"], NotLabelled, "two photos"),
    ],
)
def test_a_folder_that_cannot_be_scored_ends_with_one_line_and_a_remedy(
    tmp_path: Path, names: list[str], error: type[Exception], message: str
) -> None:
    for name in names:
        photo(tmp_path / name)
    with pytest.raises(error, match=message) as caught:
        find_labelled(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_missing_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(NoPhotos, match="nowhere"):
        find_labelled(tmp_path / "nowhere")


def test_thinning_keeps_the_share_of_every_class(tmp_path: Path) -> None:
    labels = np.repeat([0, 1], [900, 300])
    photos = LabelledPhotos(tmp_path, [tmp_path / str(number) for number in range(1200)], labels, ["a", "b"])
    few = photos.thinned(100)
    assert len(few.paths) == len(few.labels) == 100
    assert abs(np.count_nonzero(few.labels == 0) - 75) <= 1
    assert all(labels[int(path.name)] == label for path, label in zip(few.paths, few.labels, strict=True))
    assert photos.thinned(1200) is photos
