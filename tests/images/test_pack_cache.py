import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from PIL import Image

from mocosearch.images.pack import Pack
from mocosearch.images.pack_cache import drop_unused_packs


def make_pack(packs: Path, name: str, *, used_at: int, size: int = 1000) -> None:
    pack = Pack(packs / name, short_side=8)
    pack.pixels_path.write_bytes(bytes(size))
    pack.close()
    os.utime(packs / name / "in-use", (used_at, used_at))


def names(packs: Path) -> list[str]:
    return sorted(path.name for path in packs.iterdir())


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_packs_used_longest_ago_go_first_until_the_rest_fits(tmp_path: Path) -> None:
    for name, used_at in (("b", 100), ("a", 300), ("c", 200)):
        make_pack(tmp_path, name, used_at=used_at)
    limit = bytes_of(tmp_path)
    drop_unused_packs(tmp_path, limit=limit)
    assert names(tmp_path) == ["a", "b", "c"]
    drop_unused_packs(tmp_path, limit=limit - 1)
    assert names(tmp_path) == ["a", "c"]
    drop_unused_packs(tmp_path, limit=0)
    assert names(tmp_path) == []


HOLDING = """
import sys, time
from pathlib import Path
from mocosearch.images.pack import Pack
pack = Pack(Path(sys.argv[1]), short_side=8)
print("in use", flush=True)
time.sleep(600)
"""


def test_a_pack_in_use_stays_until_its_process_is_gone_however_it_ends(tmp_path: Path) -> None:
    make_pack(tmp_path, "old", used_at=100)
    make_pack(tmp_path, "other", used_at=200)
    process = subprocess.Popen([sys.executable, "-c", HOLDING, tmp_path / "old"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    drop_unused_packs(tmp_path, limit=0)
    assert names(tmp_path) == ["old"]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    drop_unused_packs(tmp_path, limit=0)
    assert names(tmp_path) == []


def test_what_a_killed_removal_left_is_removed(tmp_path: Path) -> None:
    make_pack(tmp_path, "a", used_at=100)
    shutil.copytree(tmp_path / "a", tmp_path / "dropped-b")
    drop_unused_packs(tmp_path, limit=1 << 20)
    assert names(tmp_path) == ["a"]


REMOVING = """
import sys, time
from pathlib import Path
from mocosearch.images.pack import Pack
from mocosearch.images.pack_cache import drop_unused_packs
packs, end = Path(sys.argv[1]), time.monotonic() + 2
while time.monotonic() < end:
    for name in "ab":
        Pack(packs / name, short_side=8).close()
    drop_unused_packs(packs, limit=0)
"""
PACKING = """
import sys, time
from pathlib import Path
from mocosearch.images.pack import Pack
from mocosearch.images.walk import find_photos
packs, photos, end = Path(sys.argv[1]), Path(sys.argv[2]), time.monotonic() + 2
while time.monotonic() < end:
    for name in "abc":
        pack = Pack(packs / name, short_side=8)
        packed, skipped = pack.update(photos, find_photos(photos))
        assert len(packed) == 3 and not skipped
        assert len(pack.pixels()) == 3 * 3 * 8 * 8
        pack.close()
"""


def test_processes_that_remove_and_use_the_same_packs_do_not_disturb_each_other(tmp_path: Path) -> None:
    packs, photos = tmp_path / "packs", tmp_path / "photos"
    photos.mkdir()
    for number in range(3):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(photos / f"{number}.png")
    processes = [
        subprocess.Popen([sys.executable, "-c", code, packs, photos], stderr=subprocess.PIPE, text=True)
        for code in (REMOVING, REMOVING, PACKING)
    ]
    for process in processes:
        _, said = process.communicate()
        assert process.returncode == 0, said
    drop_unused_packs(packs, limit=0)
    assert names(packs) == []
