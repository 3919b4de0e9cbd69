"""Patterns: what git would leave out is left out, and what is asked for is taken whatever its name."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mocosearch.errors import BadPattern
from mocosearch.images.ignore import IgnoreRules
from mocosearch.images.walk import find_photos


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def found(root: Path, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> list[str]:
    return [os.fsdecode(stamp.path) for stamp in find_photos(root, rules=IgnoreRules(include, exclude))]


def test_an_ignore_file_counts_in_its_folder_and_below_and_the_deeper_one_decides(tmp_path: Path) -> None:
    put(tmp_path, "raw.jpg", "a/raw.jpg", "a/b/raw.jpg", "a/b/x.jpg", "c/raw.jpg", "c/x.jpg")
    (tmp_path / "a" / ".mocosearchignore").write_text("# no drafts\n\nraw.jpg\n")
    (tmp_path / "a" / "b" / ".mocosearchignore").write_bytes(b"\xef\xbb\xbf!raw.jpg\r\n/x.jpg\r\n")
    assert found(tmp_path) == ["a/b/raw.jpg", "c/raw.jpg", "c/x.jpg", "raw.jpg"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ((), (), ["a.jpg", "d/b.jpg"]),
        ((), ("d/",), ["a.jpg"]),
        ((), ("*", "!a.jpg"), ["a.jpg"]),
        ((".h/",), (), [".h/c.jpg", "a.jpg", "d/b.jpg"]),
        ((".h",), (), [".h/c.jpg", "a.jpg", "d/b.jpg"]),
        (("@eaDir/", ".d.jpg"), (), [".d.jpg", "@eaDir/e.jpg", "a.jpg", "d/b.jpg"]),
        (("*.scan",), (), ["a.jpg", "d/b.jpg", "d/f.scan"]),
        (("/d/b.jpg",), ("*.jpg",), ["d/b.jpg"]),
        (("d/b.jpg",), ("d/",), ["a.jpg"]),  # as in git: nothing comes back out of a folder that is left out
    ],
)
def test_include_and_exclude_add_to_the_defaults(
    tmp_path: Path, include: tuple[str, ...], exclude: tuple[str, ...], expected: list[str]
) -> None:
    put(tmp_path, "a.jpg", "d/b.jpg", "d/f.scan", "d/g.txt", ".h/c.jpg", ".h/notes.txt", ".d.jpg", "@eaDir/e.jpg")
    assert found(tmp_path, include, exclude) == expected


def test_the_command_goes_before_an_ignore_file(tmp_path: Path) -> None:
    put(tmp_path, "a.jpg", "b.jpg")
    (tmp_path / ".mocosearchignore").write_text("a.jpg\n!b.jpg\n")
    assert found(tmp_path, include=("a.jpg",), exclude=("b.jpg",)) == ["a.jpg"]


def test_names_that_are_not_text_can_be_matched(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.jpg")
    put(tmp_path, name, "other.jpg")
    assert found(tmp_path, exclude=("caf?.jpg",)) == ["other.jpg"]
    (tmp_path / ".mocosearchignore").write_bytes(b"caf\xe9.jpg\n")
    assert found(tmp_path) == ["other.jpg"]


def test_a_link_to_a_photo_that_rules_leave_out_still_counts(tmp_path: Path) -> None:
    put(tmp_path, "store/deep/a.jpg", "store/deep/b.jpg")
    (tmp_path / "link.jpg").symlink_to("store/deep/a.jpg")
    (tmp_path / "other.jpg").symlink_to("store/deep/b.jpg")
    (tmp_path / "store" / ".mocosearchignore").write_text("a.jpg\n")
    assert found(tmp_path) == ["link.jpg", "store/deep/b.jpg"]
    assert found(tmp_path, exclude=("/store",)) == ["link.jpg", "other.jpg"]


def test_a_folder_named_like_the_ignore_file_says_nothing(tmp_path: Path) -> None:
    put(tmp_path, "a.jpg", ".mocosearchignore/b.jpg")
    assert found(tmp_path) == ["a.jpg"]


def test_a_pattern_that_means_nothing_is_one_line_that_names_its_place(tmp_path: Path) -> None:
    with pytest.raises(BadPattern, match=r"--exclude.*\.gitignore"):
        IgnoreRules(exclude=("!",))
    put(tmp_path, "sub/a.jpg")
    (tmp_path / "sub" / ".mocosearchignore").write_text("!\n")
    with pytest.raises(BadPattern, match=r"'sub/\.mocosearchignore'"):
        found(tmp_path)


parts = st.sampled_from(["a", "b", "*", "**", "a*", "?", "[ab]"])
patterns = st.builds(
    lambda negated, rooted, names, folder: f"{negated}{rooted}{'/'.join(names)}{folder}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(parts, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)
ignore_files = st.dictionaries(st.sampled_from(["", "a", "b", "a/b"]), st.lists(patterns, max_size=4), max_size=3)


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How to ask git for the photos of a work tree that must be added; the tree and the repository lie apart."""
    if shutil.which("git") is None:
        pytest.skip("compares with git")
    repository = tmp_path_factory.mktemp("git")
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True)
    options = ["--others", "--exclude-per-directory=.mocosearchignore", "-z", "*.jpg"]
    return ["git", f"--git-dir={repository}", "ls-files", *options]


@settings(max_examples=80, deadline=None)
@given(ignore_files)
@example({"": ["*", "!a/"]})
@example({"": ["a/**", "!a/a.jpg"]})
@example({"": ["a/**", "!a/b/", "!a/b/*"]})
@example({"": ["**/b", "!/a/b"], "a": ["b/"]})
@example({"": ["a/**/"]})
@example({"": ["*", "!*/**/", "!**/a.jpg"]})
@example({"": ["a", "!*/"]})
@example({"": ["*", "!*/", "!a.jpg"]})
@example({"": ["**/", "!b/"]})
def test_what_is_left_out_is_what_git_leaves_out(git: list[str], files: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        put(root, *(f"{folder}{leaf}.jpg" for folder in ("", "a/", "b/", "a/a/", "a/b/", "b/a/") for leaf in "ab"))
        for folder, lines in files.items():
            (root / folder / ".mocosearchignore").write_text("\n".join(lines))
        listed = subprocess.run(
            [git[0], f"--work-tree={name}", *git[1:]], cwd=name, capture_output=True, text=True, check=True
        ).stdout
        assert found(root) == sorted(listed.split("\0")[:-1])
