"""Class folders: what is a class, and which folders cannot be scored."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch.errors import NoPhotos, NotLabelled
from mocosearch.evaluation.labels.labelled import LabelledPhotos, find_labelled


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
        (["1.jpg", "2.jpg"], NotLabelled, "The 2 photos of .* lie in no class folders"),
        (["a/1.jpg", "a/2.jpg"], NotLabelled, "needs two or more, add photos of another"),
        (["a/1.jpg", "b/2.jpg"], NotLabelled, "two photos"),
        (["train/a/1.jpg", "train/a/2.jpg", "test/b/1.jpg", "test/b/2.jpg"], NotLabelled, "one name in both"),
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


def test_photos_beside_the_class_folders_are_left_out_and_counted(tmp_path: Path) -> None:
    for name in ("1.jpg", "2.jpg", "a/1.jpg", "a/2.jpg", "b/1.jpg"):
        photo(tmp_path / name)
    found = find_labelled(tmp_path)
    assert (found.classes, found.labels.tolist(), found.stray) == (["a", "b"], [0, 0, 1], 2)
    assert found.paths == [tmp_path / name for name in ("a/1.jpg", "a/2.jpg", "b/1.jpg")]


@pytest.mark.parametrize(
    ("learned", "scored"),
    [
        (["train"], "val"),
        (["train"], "test"),
        (["Train"], "Validation"),
        (["train", "valid"], "test"),
        (["val"], "test"),
    ],
)
def test_of_parts_the_last_is_held_out_and_classes_are_matched_by_their_path_below(
    tmp_path: Path, learned: list[str], scored: str
) -> None:
    for part in (*learned, scored):
        for name in ("fruit/apple/1.jpg", "fruit/pear/1.jpg", "stray.jpg"):
            photo(tmp_path / part / name)
    photo(tmp_path / scored / "cup" / "1.jpg")  # a class that nothing is learned of
    photo(tmp_path / "more" / "a" / "1.jpg")  # in none of the parts
    found = find_labelled(tmp_path)
    assert found.classes == ["cup", "fruit/apple", "fruit/pear"]
    assert found.stray == len(learned) + 2
    assert found.held_out is not None
    facts = {path.relative_to(tmp_path).as_posix(): (found.classes[label], bool(out))
             for path, label, out in zip(found.paths, found.labels, found.held_out, strict=True)}  # fmt: skip
    expected = {f"{scored}/cup/1.jpg": ("cup", True)}
    for part in (*learned, scored):
        for name in ("fruit/apple", "fruit/pear"):
            expected[f"{part}/{name}/1.jpg"] = (name, part == scored)
    assert facts == expected


def test_a_single_folder_called_train_is_a_folder_like_others(tmp_path: Path) -> None:
    for name in ("train/steam/1.jpg", "train/steam/2.jpg", "bus/1.jpg", "test/1.jpg"):
        photo(tmp_path / name)
    found = find_labelled(tmp_path)
    assert (found.classes, found.held_out, found.stray) == (["bus", "test", "train/steam"], None, 0)


def test_a_selection_keeps_label_and_part_with_each_photo(tmp_path: Path) -> None:
    for name in ("train/a/1.jpg", "train/b/1.jpg", "test/a/1.jpg", "test/b/1.jpg"):
        photo(tmp_path / name)
    few = find_labelled(tmp_path).selected(np.array([1, 2]))
    assert few.paths == [tmp_path / "test/b/1.jpg", tmp_path / "train/a/1.jpg"]
    assert few.labels.tolist() == [1, 0]
    assert few.held_out is not None
    assert few.held_out.tolist() == [True, False]
    assert few.classes == ["a", "b"]


def test_thinning_keeps_the_share_of_every_class(tmp_path: Path) -> None:
    labels = np.repeat([0, 1], [900, 300])
    photos = LabelledPhotos(tmp_path, [tmp_path / str(number) for number in range(1200)], labels, ["a", "b"])
    few = photos.thinned(100)
    assert len(few.paths) == len(few.labels) == 100
    assert abs(np.count_nonzero(few.labels == 0) - 75) <= 1
    assert all(labels[int(path.name)] == label for path, label in zip(few.paths, few.labels, strict=True))
    assert photos.thinned(1200) is photos
