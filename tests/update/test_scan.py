"""What an update has to do, from what was found and what is known."""

from pathlib import Path

import pytest

from mocosearch.errors import NoPhotos
from mocosearch.images.decode import decoder_capabilities
from mocosearch.images.ignore import IgnoreRules
from mocosearch.update.scan import Found, compare, look, looks_like_loss, split_off_left_out, tried_with
from mocosearch_index.records import FileStamp, KnownFile

CAP = 60.0  # seconds for a file
DECODER = decoder_capabilities()


def stamp(name: bytes, mtime_ns: int = 0) -> FileStamp:
    return FileStamp(name, 100, mtime_ns)


def known(*names: bytes, **changes: object) -> dict[bytes, KnownFile]:
    files = {}
    for number, name in enumerate(names, 1):
        files[name] = KnownFile(*stamp(name), number, False, None, None)._replace(**changes)
    return files


def found(*names: bytes) -> Found:
    return Found([stamp(name) for name in names], [])


def numbered(count: int) -> list[bytes]:
    return [b"%d.jpg" % number for number in range(count)]


def test_new_and_changed_files_are_embedded_and_unchanged_ones_are_not() -> None:
    there = Found([stamp(b"a"), stamp(b"b", mtime_ns=1), stamp(b"c"), FileStamp(b"d", 101, 0)], [])
    result = compare(there, known(b"a", b"b", b"d"), CAP)
    assert [file.path for file in result.to_read] == [b"b", b"c", b"d"]
    assert (result.new, result.unchanged) == (1, 1)
    assert result.gone == result.returned == []


@pytest.mark.parametrize(
    ("reason", "decoder", "again"),
    [
        ("truncated", DECODER, False),
        ("truncated", "decoder 0", True),
        ("io", DECODER, True),
        ("permission", DECODER, True),
        ("timeout", tried_with("timeout", CAP), False),
        ("timeout", tried_with("timeout", 30.0), True),
        ("truncated", tried_with("truncated", 30.0), False),
    ],
)
def test_a_skipped_file_is_tried_again_when_it_could_turn_out_otherwise(reason: str, decoder: str, again: bool) -> None:
    for state in ("skipped", "missing"):
        before = known(b"a", is_missing=state == "missing", reason=reason, decoder=decoder)
        result = compare(found(b"a"), before, CAP)
        assert bool(result.to_read) == again
        assert result.returned == ([1] if state == "missing" and not again else [])


def test_a_missing_file_that_is_back_unchanged_returns_and_a_changed_one_is_embedded() -> None:
    there = Found([stamp(b"a"), stamp(b"b", mtime_ns=5)], [])
    result = compare(there, known(b"a", b"b", is_missing=True), CAP)
    assert result.returned == [1]
    assert [file.path for file in result.to_read] == [b"b"]


def test_files_that_are_gone_are_missing_once() -> None:
    before = known(b"a", b"b") | known(b"c", is_missing=True)
    result = compare(found(b"a"), before, CAP)
    assert [file.id for file in result.gone] == [2]


@pytest.mark.parametrize(
    ("stay", "of", "loss"),
    [(0, 3, True), (0, 300, True), (270, 400, True), (280, 400, False), (1, 101, False), (1, 102, True)],
)
def test_all_or_very_many_gone_at_once_look_like_a_loss(stay: int, of: int, loss: bool) -> None:
    before, there = known(*numbered(of)), found(*numbered(stay))
    gone = compare(there, before, CAP).gone
    assert len(gone) == of - stay
    assert looks_like_loss(len(gone), before.values(), there) == loss


def test_what_was_missing_before_does_not_count_as_a_loss_of_today() -> None:
    before = known(*numbered(150)) | known(*(b"old/" + name for name in numbered(500)), is_missing=True)
    gone = compare(found(*numbered(40)), before, CAP).gone
    assert len(gone) == 110
    assert looks_like_loss(110, before.values(), found(*numbered(40)))


def test_what_is_below_a_folder_that_cannot_be_looked_at_is_not_gone() -> None:
    there = Found([stamp(b"a")], [b"locked", b"b"])
    before = known(b"a", b"locked/x", b"locked/sub/y", b"locked-not/z", b"b")
    assert [file.id for file in compare(there, before, CAP).gone] == [4]


def test_a_file_that_is_only_left_out_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b").symlink_to("nowhere")
    lost, left_out = split_off_left_out(tmp_path, known(b"sub/a", b"sub/b").values())
    assert ([file.path for file in lost], [file.path for file in left_out]) == ([b"sub/a"], [b"sub/b"])


def test_a_look_at_a_real_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jpg").write_bytes(b"12345")
    (tmp_path / "b.jpg").write_bytes(b"")
    [file] = look(tmp_path, IgnoreRules(exclude=["b.*"])).files
    assert (file.path, file.size) == (b"sub/a.jpg", 5)
    with pytest.raises(NoPhotos):
        look(tmp_path / "nowhere")
