"""`index` that is stopped, killed, overtaken or runs out of disk, in processes of its own."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mocosearch_index.image_index import ImageIndex
from tests.cli.indexing.terminal import Terminal, error_line, write_photo


@pytest.fixture
def many_photos(photos: Path) -> Path:
    """Four hundred photos, which take a slow `index` twenty seconds."""
    for number in range(5, 400):
        write_photo(photos / f"{number}.jpg", number)
    return photos


def wait_for_commits(folder: Path, count: int) -> None:
    """Wait until the index in `folder` holds at least `count`."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if (folder / "catalog.sqlite").exists():
            with ImageIndex.open(folder) as index:
                if index.counts()["indexed"] >= count:
                    return
        time.sleep(0.05)
    pytest.fail("nothing was committed within two minutes")


@pytest.fixture
def running(mocosearch: Terminal, many_photos: Path, encoder: str) -> Iterator["subprocess.Popen[str]"]:
    """A slow `index` that has committed some photos and has more to do."""
    process = mocosearch.start("index", many_photos, "--encoder", encoder)
    wait_for_commits(many_photos / ".mocosearch", 3)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_is_done_and_the_next_run_goes_on(
    mocosearch: Terminal, running: "subprocess.Popen[str]", many_photos: Path, number: signal.Signals
) -> None:
    running.send_signal(number)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "Traceback" not in err
    with ImageIndex.open(many_photos / ".mocosearch") as index:
        kept = index.counts()["indexed"]
        assert index.verify() == []
    assert 3 <= kept < 400
    assert f"Stopped. {kept} photos are in the index; run the same command again to go on." in err
    assert f"{400 - kept} new or changed, {kept} unchanged" in mocosearch("index", many_photos)[0]


def test_five_kills_cost_nothing_that_was_committed(mocosearch: Terminal, many_photos: Path, encoder: str) -> None:
    kept = 0
    for _ in range(5):
        process = mocosearch.start("index", many_photos, "--encoder", encoder)
        wait_for_commits(many_photos / ".mocosearch", kept + 3)
        process.kill()
        process.communicate(timeout=120)
        with ImageIndex.open(many_photos / ".mocosearch") as index:
            assert index.counts()["indexed"] >= kept + 3
            kept = index.counts()["indexed"]
            assert index.verify() == []
    assert kept < 400
    assert f"{400 - kept} new or changed, {kept} unchanged" in mocosearch("index", many_photos)[0]


def test_a_second_index_waits_for_nobody_and_searching_goes_on(
    mocosearch: Terminal, running: "subprocess.Popen[str]", many_photos: Path
) -> None:
    line = error_line(mocosearch("index", many_photos, expect=1)[1])
    assert "wait until it has finished" in line
    assert mocosearch("search", many_photos / "0.jpg", "--library", many_photos)[0]
    assert running.poll() is None


def test_a_full_disk_is_one_line_and_keeps_what_was_done(
    mocosearch: Terminal, many_photos: Path, encoder: str, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount here (needs root): {mounted.stderr.strip()}")
    try:
        process = mocosearch.start("index", many_photos, "--encoder", encoder, "--index-dir", disk / "index")
        wait_for_commits(disk / "index", 3)
        with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "Traceback" not in err
        assert "No space left on the disk of" in err.splitlines()[-1]
        with ImageIndex.open(disk / "index") as index:
            kept = index.counts()["indexed"]
            assert index.verify() == []
        (disk / "ballast").unlink()
        out, _ = mocosearch("index", many_photos, "--index-dir", disk / "index")
        assert f"{400 - kept} new or changed" in out
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
