"""`index`, `search` and `status` as a person types them: real processes, exit codes, what goes to which stream."""

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mocosearch.user_folders import set_current_encoder
from tests.cli.indexing.terminal import Terminal, error_line, write_photo


def test_index_then_search_then_status(
    mocosearch: Terminal, photos: Path, encoders: dict[str, str], encoder: str
) -> None:
    out, err = mocosearch("index", photos, "--encoder", encoder)
    assert f"trained on 2,000 photos of /some/photos (moco_v2_small, 100 steps)  [{encoders[encoder]}], as named" in err
    assert out == f"5 photos of '{photos}' are in the index (5 new or changed)\n"
    out, err = mocosearch("index", photos)
    assert "recorded in the index" in err
    assert "(5 unchanged)" in out
    out, err = mocosearch("search", photos / "3.jpg", "-k", "2")
    assert f"'{photos}' (indexed last)" in err
    found = out.splitlines()
    assert len(found) == 2
    assert set(found) < {str(photos / f"{number}.jpg") for number in (0, 1, 2, 4)}
    out, err = mocosearch("status")
    assert f"'{photos}' (indexed last)" in err
    assert "5 indexed, 0 skipped, 0 missing" in out
    assert encoders[encoder] in out


def test_json_says_the_same(mocosearch: Terminal, photos: Path, encoders: dict[str, str], encoder: str) -> None:
    (photos / "text.jpg").write_text("Dear diary")
    report = json.loads(mocosearch("index", photos, "--encoder", encoder, "--json")[0])
    assert (report["found"], report["new"], report["embedded"], report["stopped"]) == (6, 6, 5, False)
    assert report["encoder"]["fingerprint"] == encoders[encoder]
    [skip] = report["skipped"]
    assert (skip["path"], skip["reason"]) == ("text.jpg", "not-an-image")
    shutil.copy(photos / "3.jpg", photos.parent / "copy.jpg")
    hits = json.loads(mocosearch("search", photos.parent / "copy.jpg", "--json")[0])
    assert len(hits) == 5
    assert hits[0]["path"] == str(photos / "3.jpg")
    assert hits[0]["score"] > 0.99
    status = json.loads(mocosearch("status", photos, "--json")[0])
    assert status["counts"] == {"indexed": 5, "skipped": 1, "missing": 0}
    assert status["skip_reasons"] == {"not-an-image": 1}
    assert status["skipped"] == report["skipped"]


def test_which_library_is_used(mocosearch: Terminal, photos: Path, encoder: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(photos, other)
    (photos / "sub").mkdir()
    mocosearch("index", photos, "--encoder", encoder)
    mocosearch("index", other, "--encoder", encoder)
    assert f"'{other}' (indexed last)" in mocosearch("status")[1]
    assert f"'{photos}' (of the current folder)" in mocosearch("status", cwd=photos)[1]
    assert f"'{photos}' (of a folder above the current one)" in mocosearch("search", "../0.jpg", cwd=photos / "sub")[1]
    assert f"'{photos}' (as named)" in mocosearch("status", photos)[1]
    assert f"'{photos}' (as named)" in mocosearch("search", other / "0.jpg", "--library", photos)[1]


def test_an_index_elsewhere_is_found_again(mocosearch: Terminal, photos: Path, encoder: str, tmp_path: Path) -> None:
    mocosearch("index", photos, "--encoder", encoder, "--index-dir", tmp_path / "index")
    assert not (photos / ".mocosearch").exists()
    assert "(5 unchanged)" in mocosearch("index", photos)[0]
    for where in ([], [photos], [tmp_path / "index"]):
        assert "5 indexed" in mocosearch("status", *where)[0]
    assert len(mocosearch("search", photos / "1.jpg")[0].splitlines()) == 4


def test_a_second_index_elsewhere_is_the_one_meant_from_then_on(
    mocosearch: Terminal, photos: Path, encoder: str, tmp_path: Path
) -> None:
    index, own = tmp_path / "index", photos / ".mocosearch"
    mocosearch("index", photos, "--encoder", encoder)
    mocosearch("index", photos, "--encoder", encoder, "--index-dir", index)
    assert f"'{index}', where it was put with --index-dir" in mocosearch("index", photos)[1]
    for where in ([], [photos]):
        assert json.loads(mocosearch("status", *where, "--json")[0])["index"] == str(index)
    mocosearch("index", photos, "--index-dir", own)
    assert "--index-dir" not in mocosearch("index", photos)[1]
    assert json.loads(mocosearch("status", "--json")[0])["index"] == str(own)


def test_a_newer_encoder_is_told_of_only_when_none_was_named(
    mocosearch: Terminal, photos: Path, encoders: dict[str, str], tmp_path: Path
) -> None:
    first, second = encoders
    mocosearch("index", photos, "--encoder", first)
    set_current_encoder(Path(second))
    assert "another encoder was trained last" in mocosearch("index", photos)[1]
    assert "another encoder" not in mocosearch("index", photos, "--encoder", first)[1]


def test_a_home_that_cannot_be_written_to_costs_only_the_memory(
    mocosearch: Terminal, photos: Path, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOCOSEARCH_HOME", "/proc/mocosearch")
    out, err = mocosearch("index", photos, "--encoder", encoder)
    assert "will not be remembered" in err
    assert "5 photos" in out
    assert "5 indexed" in mocosearch("status", photos)[0]


def test_another_encoder_is_refused_with_exit_code_4(
    mocosearch: Terminal, photos: Path, encoders: dict[str, str]
) -> None:
    (first, first_print), (second, second_print) = encoders.items()
    mocosearch("index", photos, "--encoder", first)
    line = error_line(mocosearch("index", photos, "--encoder", second, expect=4)[1])
    assert first_print in line
    assert second_print in line
    assert "leave out --encoder" in line
    assert "5 indexed" in mocosearch("status", photos)[0]
    mocosearch("index", photos, "--encoder", first)


@pytest.mark.parametrize("case", ["missing", "empty", "only a text", "no encoder", "file"])
def test_what_cannot_be_indexed_is_said_in_one_line_and_leaves_nothing(
    mocosearch: Terminal, tmp_path: Path, encoder: str, photos: Path, case: str
) -> None:
    folder = tmp_path / "odd"
    if case != "missing":
        folder.mkdir()
    if case == "only a text":
        (folder / "text.jpg").write_text("Dear diary")
    if case == "no encoder":
        folder = photos
    if case == "file":
        folder = photos / "0.jpg"
    options = [] if case == "no encoder" else ["--encoder", encoder]
    _, err = mocosearch("index", folder, *options, expect=1)
    lines = [line for line in err.splitlines() if not line.startswith("Encoder ")]
    expected = {
        "missing": "check the name",
        "empty": "put some there",
        "only a text": "'text.jpg': not-an-image",
        "no encoder": "mocosearch train",
        "file": "not a folder",
    }
    assert len(lines) == 1
    assert expected[case] in lines[0]
    assert not (folder / ".mocosearch").exists()
    mocosearch("status", expect=1)  # and no library is remembered


def test_a_folder_whose_name_is_too_long_is_missing(mocosearch: Terminal, encoder: str) -> None:
    for command in (("status",), ("index", "--encoder", encoder), ("search", "a.jpg", "--library")):
        _, err = mocosearch(*command, "x" * 5000, expect=1)
        assert "check " in err.splitlines()[-1]
        assert "Traceback" not in err


def test_a_folder_with_one_photo_is_a_library(mocosearch: Terminal, tmp_path: Path, encoder: str) -> None:
    (tmp_path / "one").mkdir()
    for name in ("one/only.jpg", "copy.jpg"):
        write_photo(tmp_path / name, 1)
    mocosearch("index", tmp_path / "one", "--encoder", encoder)
    assert mocosearch("search", tmp_path / "copy.jpg")[0] == f"{tmp_path / 'one' / 'only.jpg'}\n"
    out, err = mocosearch("search", tmp_path / "one" / "only.jpg")
    assert out == ""
    assert "the library holds no other photos" in err


def test_skipped_files_are_named_and_strict_makes_them_exit_code_3(
    mocosearch: Terminal, photos: Path, encoder: str
) -> None:
    for number in range(12):
        (photos / f"text{number:02}.jpg").write_text("Dear diary")
    _, err = mocosearch("index", photos, "--encoder", encoder)
    assert err.count("not-an-image") == 10
    assert "2 more: see `mocosearch status`" in err
    mocosearch("index", photos, "--strict", expect=3)
    out, _ = mocosearch("status", photos)
    assert "12 not-an-image" in out
    assert "'text11.jpg'" in out


def test_an_emptied_folder_is_an_error_and_keeps_the_index_until_prune(
    mocosearch: Terminal, photos: Path, encoder: str
) -> None:
    mocosearch("index", photos, "--encoder", encoder)
    for path in photos.glob("*.jpg"):
        path.unlink()
    _, err = mocosearch("index", photos, expect=1)
    assert "5 photos that are gone" in err
    assert "--prune" in err
    assert "5 indexed" in mocosearch("status", photos)[0]
    mocosearch("index", photos, "--prune")
    assert "0 indexed, 0 skipped, 5 missing" in mocosearch("status", photos)[0]


def test_a_query_that_is_no_picture_is_named(mocosearch: Terminal, photos: Path, encoder: str) -> None:
    mocosearch("index", photos, "--encoder", encoder)
    (photos / "text.txt").write_text("Dear diary")
    for name, words in (
        ("text.txt", "no image of a known format"),
        ("nowhere.jpg", "There is no file"),
        ("x" * 5000, "There is no file"),
    ):
        _, err = mocosearch("search", photos / name, expect=1)
        last = err.splitlines()[-1]
        assert name in last
        assert words in last


def test_odd_names_are_printed_safely(mocosearch: Terminal, photos: Path, encoder: str) -> None:
    odd = [b"caf\xe9.jpg", b"new\nline.jpg", b"\x1b[31mred.jpg", "ä😀.jpg".encode(), b"[bold]x.jpg"]
    for path in photos.glob("*.jpg"):
        path.unlink()
    for seed, name in enumerate(odd):
        write_photo(photos / os.fsdecode(name), seed)
    (photos / os.fsdecode(b"bad\n\xff.jpg")).write_text("Dear diary")
    _, err = mocosearch("index", photos, "--encoder", encoder)
    assert "'bad\\n\\xff.jpg'" in err
    assert "'bad\\n\\xff.jpg'" in mocosearch("status", photos)[0]
    query = photos.parent / "query.jpg"
    write_photo(query, 3)
    out, _ = mocosearch("search", query, "--library", photos)
    base = os.fsencode(photos) + b"/"
    # A pipe gets the bytes of the name; only one that holds a line break is escaped.
    lines = {os.fsencode(line) for line in out.split("\n")[:-1]}
    assert lines == {base + name.replace(b"\n", b"\\n") for name in odd}
    hits = json.loads(mocosearch("search", query, "--library", photos, "--json")[0])
    assert {os.fsencode(hit["path"]) for hit in hits} == {base + name for name in odd}
    seen = on_a_terminal(mocosearch, "search", str(query), "--library", str(photos))
    assert "caf\\xe9.jpg" in seen
    assert "new\\nline.jpg" in seen
    assert "\\x1b[31mred.jpg" in seen
    assert "[bold]x.jpg" in seen
    assert "ä😀.jpg" in seen


def on_a_terminal(mocosearch: Terminal, *arguments: str) -> str:
    """Return what a person sees."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mocosearch", *arguments]
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = subprocess.Popen(command, cwd=mocosearch.folder, **streams)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # how Linux says that nobody writes any more
        pass
    os.close(ours)
    assert process.wait(60) == 0
    return seen.decode()


def test_a_terminal_shows_a_bar_and_a_table(mocosearch: Terminal, photos: Path, encoder: str) -> None:
    seen = on_a_terminal(mocosearch, "index", str(photos), "--encoder", encoder)
    assert "Embedding" in seen
    assert "5/5" in seen
    shutil.copy(photos / "2.jpg", photos.parent / "copy.jpg")
    seen = on_a_terminal(mocosearch, "search", str(photos.parent / "copy.jpg"))
    assert "Score" in seen
    assert "2.jpg" in seen
    assert "1.000" in seen


def test_it_works_as_a_command_of_the_system_too(mocosearch: Terminal, photos: Path, encoder: str) -> None:
    command = [sys.executable, "-m", "mocosearch", "index", str(photos), "--encoder", encoder, "--strict"]
    (photos / "text.jpg").write_text("Dear diary")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert done.stdout == f"5 photos of '{photos}' are in the index (5 new or changed, 1 skipped)\n"
    found = subprocess.run([*command[:3], "search", str(photos / "1.jpg")], capture_output=True, check=True)
    assert len(found.stdout.splitlines()) == 4
