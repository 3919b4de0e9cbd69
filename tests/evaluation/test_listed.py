"""CSV files of classes and of pairs: what they may look like, and which line is blamed for what is wrong."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mocosearch.errors import BadLabels, NoPhotos, NotLabelled
from mocosearch.evaluation.labels.listed import read_labels, read_pairs


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Files that are only named, never decoded."""
    root = tmp_path / "photos"
    for name in ("a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg", "c, d.jpg"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def listed(photos: Path, text: str | bytes) -> Path:
    path = photos.parent / "list.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_classes_come_from_the_file_and_photos_that_it_does_not_name_are_left_out(photos: Path) -> None:
    found = read_labels(photos, listed(photos, "path,class\nb/1.jpg,warm\na/1.jpg,cold\n./a/2.jpg, warm\n"))
    assert found.paths == [photos / "a/1.jpg", photos / "a/2.jpg", photos / "b/1.jpg"]
    assert [found.classes[label] for label in found.labels] == ["cold", "warm", "warm"]
    assert (found.classes, found.held_out, found.stray) == (["cold", "warm"], None, 0)


def test_the_order_of_lines_and_columns_and_the_spelling_of_the_header_do_not_matter(photos: Path) -> None:
    first = read_labels(photos, listed(photos, "path,class\na/1.jpg,x\na/2.jpg,y\nb/1.jpg,x\n"))
    text = "\ufeffid, Target ,FileName\r\n7,x,b/1.jpg\r\n\r\n8,y,a/2.jpg\r\n9,x,a/1.jpg\r\n"  # as a spreadsheet saves
    second = read_labels(photos, listed(photos, text))
    assert (second.paths, second.labels.tolist(), second.classes) == (
        first.paths,
        first.labels.tolist(),
        first.classes,
    )


def test_of_several_columns_of_paths_the_one_called_path_is_taken(photos: Path) -> None:
    text = "name,path,label\nApple,a/1.jpg,x\nPear,a/2.jpg,x\nPlum,b/1.jpg,y\n"
    assert read_labels(photos, listed(photos, text)).paths[0] == photos / "a/1.jpg"


@pytest.mark.parametrize(
    ("parts", "classes", "held_out"),
    [
        (("train", "test", "Train", "TEST"), "xxyy", [False, True, False, True]),
        (("train", "val", "validation", "train"), "xxyy", [False, True, True, False]),
        (("train", "val", "test", "test"), "xyxy", [False, False, True, True]),
        (("train", "train", "train", "train"), "xxyy", None),
    ],
)
def test_a_column_called_split_tells_the_parts(
    photos: Path, parts: tuple[str, ...], classes: str, held_out: list[bool] | None
) -> None:
    rows = zip(("a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg"), classes, parts, strict=True)
    text = "path,class,split\n" + "".join(f"{','.join(row)}\n" for row in rows)
    found = read_labels(photos, listed(photos, text)).held_out
    assert (None if found is None else found.tolist()) == held_out


def test_names_need_not_be_text_and_links_and_absolute_paths_are_followed(photos: Path) -> None:
    odd = photos / os.fsdecode(b"od\xffd.jpg")
    odd.touch()
    (photos / "link.jpg").symlink_to(odd)
    text = b"path,class\nod\xffd.jpg,caf\xe9\n" + os.fsencode(photos) + b"/a/1.jpg,caf\xe9\nlink.jpg,tea\n"
    found = read_labels(photos, listed(photos, text))
    assert found.paths == [photos / "a/1.jpg", photos / "link.jpg", odd]
    assert found.classes == ["caf\\xe9", "tea"]


BAD_CLASSES = [
    ("path,class\na/1.jpg,x\na/9.jpg,y\n", "Line 3 of .* names 'a/9.jpg', which is no file in .*photos"),
    ("path,class\na,x\na/2.jpg,y\n", "Line 2 of .* names 'a', which is no file"),
    ("path,class\n,x\n", "Line 2 of .* names '', which is no file"),
    ("path,class\n../list.csv,x\n", "Line 2 of .* names '../list.csv', which is not in"),
    ("path,class\n/etc/hostname,x\n", "Line 2 of .* names '/etc/hostname', which is not in"),
    ("path,class\na/1.jpg,x\na/2.jpg,y\nb/../a/1.jpg,x\n", "Line 4 of .* names 'a/1.jpg' again, as line 2 does"),
    ("path,class\na/1.jpg,x\na/2.jpg,  \n", "Line 3 of .* gives 'a/2.jpg' no class"),
    ("path,class,split\na/1.jpg,x,train\na/2.jpg,x,holdout\n", "Line 3 of .* no known part: the parts are train, val"),
    ("path,class,split\na/1.jpg,x,\n", "Line 2 of .* no known part"),
    ("path,class\na/1.jpg,x\nc, d.jpg,y\n", "Line 3 of .* has 3 cells and the header 2: put what holds a comma"),
    ("path,class\na/1.jpg\n", "Line 2 of .* has 1 cells"),
    ("path;class\na/1.jpg;x\n", "Line 1 of .* names no column path, file, filename, image or name, but path;class"),
    ("path,size\na/1.jpg,7\n", "Line 1 of .* names no column label, class, category or target, but path, size"),
    ('path,class\na/1.jpg,"x\n', "Line 2 of .* is no CSV"),
    ("path,class\n", "holds no rows"),
    ("", "holds no rows"),
    ("path,class\na\0b.jpg,x\n", r"Line 2 of .* names 'a\\x00b.jpg', which is no file"),
    ("\0p\0a\0t\0h\0,\0c\0l\0a\0s\0s\na\0", "Line 1 of .* UTF-16, as it seems: save the file as CSV in UTF-8"),
    ("path,class,Class\na/1.jpg,x,y\n", "Line 1 of .* names the column class twice"),
    (f"path,class\n{'a' * 300}.jpg,x\n", "names 'a{200}[.]{3}', which is no file"),
    ("path,class\na\x1b[2J.jpg,x\n", r"names 'a\\x1b\[2J.jpg'"),
]


@pytest.mark.parametrize(("text", "message"), BAD_CLASSES)
def test_a_row_that_is_not_sound_is_named_by_its_line(photos: Path, text: str, message: str) -> None:
    with pytest.raises(BadLabels, match=message) as caught:
        read_labels(photos, listed(photos, text))
    assert "\n" not in str(caught.value)


def test_too_few_classes_are_refused_as_in_folders(photos: Path) -> None:
    with pytest.raises(NotLabelled, match="of one class"):
        read_labels(photos, listed(photos, "path,class\na/1.jpg,x\na/2.jpg,x\n"))
    with pytest.raises(NotLabelled, match="both the training and the test part"):
        read_labels(photos, listed(photos, "path,class,split\na/1.jpg,x,train\na/2.jpg,y,test\n"))


def test_a_file_that_cannot_be_read_is_an_error(photos: Path) -> None:
    with pytest.raises(BadLabels, match=r"none.csv' cannot be read"):
        read_labels(photos, photos / "none.csv")
    with pytest.raises(BadLabels, match="cannot be read"):
        read_pairs(photos, photos)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), min_size=3, max_size=6))
def test_what_csv_writes_is_read_back_whatever_the_classes_are_called(photos: Path, names: list[str]) -> None:
    path = photos.parent / "list.csv"
    files = [photos / f"{number}.jpg" for number in range(len(names))]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("path", "class"), *((f.name, n) for f, n in zip(files, names, strict=True))])
    for one in files:
        one.touch()
    stripped = [name.strip() for name in names]
    try:
        found = read_labels(photos, path)
    except BadLabels:
        assert "" in stripped
    except NotLabelled:
        assert len(set(stripped)) in (1, len(stripped))
    else:
        assert found.paths == files
        same = [[one == other for other in stripped] for one in stripped]
        assert (found.labels[:, None] == found.labels).tolist() == same


def test_pairs_are_read_once_each_and_every_photo_is_searched(photos: Path) -> None:
    (photos / ".hidden.jpg").touch()  # named, so it is taken although a walk leaves it out
    text = 'query,match\nb/1.jpg,a/1.jpg\na/1.jpg,b/1.jpg\n"c, d.jpg",a/2.jpg\n.hidden.jpg,a/1.jpg\n'
    found = read_pairs(photos, listed(photos, text))
    assert found.paths == [photos / n for n in (".hidden.jpg", "a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg", "c, d.jpg")]
    assert found.pairs.tolist() == [[0, 1], [1, 3], [2, 5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c\na/1.jpg,a/2.jpg,b/1.jpg\n", "Line 1 of .* has 3 columns: pairs are two"),
        ("a/1.jpg,a/2.jpg\na/1.jpg,b/1.jpg\n", "Line 1 of .* is a pair already: put a line before it"),
        ("one,other\na/1.jpg,./a/1.jpg\n", "Line 2 of .* pairs 'a/1.jpg' with itself"),
        ("one,other\na/1.jpg,a/7.jpg\n", "Line 2 of .* names 'a/7.jpg', which is no file"),
        ("one,other\na/1.jpg,../x.jpg\n", "Line 2 of .* which is not in"),
        ("one,other\n", "holds no rows"),
    ],
)
def test_a_pair_that_is_not_sound_is_named_by_its_line(photos: Path, text: str, message: str) -> None:
    with pytest.raises(BadLabels, match=message):
        read_pairs(photos, listed(photos, text))


def test_pairs_of_a_missing_folder_are_an_error(photos: Path) -> None:
    path = listed(photos, f"one,other\n{photos}/a/1.jpg,{photos}/a/2.jpg\n")
    with pytest.raises((NoPhotos, BadLabels), match="nowhere"):
        read_pairs(photos.parent / "nowhere", path)


def test_of_some_of_the_photos_the_pairs_among_them_are_left(photos: Path) -> None:
    found = read_pairs(photos, listed(photos, "query,match\na/1.jpg,a/2.jpg\na/2.jpg,b/2.jpg\nb/1.jpg,b/2.jpg\n"))
    places = np.array([place for place, path in enumerate(found.paths) if path != photos / "a/1.jpg"])
    left = found.selected(places)
    assert photos / "a/1.jpg" not in left.paths
    assert {frozenset(left.paths[place] for place in pair) for pair in left.pairs} == {
        frozenset((photos / "a/2.jpg", photos / "b/2.jpg")),
        frozenset((photos / "b/1.jpg", photos / "b/2.jpg")),
    }
