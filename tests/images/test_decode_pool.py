"""The pool gives what decoding in place gives, in order; a decoder that runs wild costs one photo, not the run."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mocosearch.errors import DecodersFailed
from mocosearch.images.decode import Undecodable
from mocosearch.images.decode_pool import DecodePool
from mocosearch.images.geometry import Geometry
from mocosearch.images.prepared import Prepared, prepare
from tests.images.wild import ABORT, DIE_ONCE, HANG, HANG_ALONE, SEGFAULT, TAME, Wild, write_photo
from tests.processes import are_gone, libraries_of, spawned_by

SMALL = Geometry(resize=40, crop=32)
WILD = Wild(40, 32)
AN_HOUR = 3600.0


def workers(but: Sequence[int] = ()) -> list[int]:
    """The processes of all pools of this process."""
    return [worker for worker in spawned_by(os.getpid(), doing=b"decode_worker") if worker not in but]


def outcomes(pool: DecodePool, paths: list[Path], geometry: Geometry = SMALL) -> list[str]:
    """Reasons, or "prepared", in order."""
    results = [result for _, result in pool.prepare(((None, path) for path in paths), geometry, ahead=8)]
    return [result.reason if isinstance(result, Undecodable) else "prepared" for result in results]


@pytest.fixture(scope="module")
def pool() -> Iterator[DecodePool]:
    with DecodePool(workers=2) as pool:
        yield pool


def write_noise(path: Path, seed: int) -> Path:
    values = np.random.default_rng(seed).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(values).save(path)
    return path


def test_photos_come_back_in_order_with_what_decoding_in_place_gives(tmp_path: Path, pool: DecodePool) -> None:
    paths = [write_noise(tmp_path / f"{seed}.{kind}", seed) for seed in range(10) for kind in ("png", "jpg")]
    results = list(pool.prepare(enumerate(paths), SMALL, ahead=5))
    assert [key for key, _ in results] == list(range(len(paths)))
    for (_, result), path in zip(results, paths, strict=True):
        expected = prepare(path, SMALL, nullcontext())
        assert isinstance(result, Prepared)
        assert (result.pixels == expected.pixels).all()
        facts = result.content_hash, result.width, result.height, result.taken_at
        assert facts == (expected.content_hash, 64, 48, None)


def test_what_is_no_photo_comes_back_with_the_reason(tmp_path: Path, pool: DecodePool) -> None:
    (tmp_path / "empty.jpg").touch()
    paths = [tmp_path / "gone.jpg", tmp_path / "empty.jpg", write_photo(tmp_path / "photo.png", TAME)]
    assert outcomes(pool, paths) == ["io", "empty", "prepared"]


def test_photos_are_drawn_no_further_ahead_than_asked(tmp_path: Path, pool: DecodePool) -> None:
    photo = write_photo(tmp_path / "photo.png", TAME)
    drawn: list[int] = []
    keys = (drawn.append(key) or key for key in range(20))  # type: ignore[func-returns-value]
    for given, (key, _) in enumerate(pool.prepare(((key, photo) for key in keys), SMALL, ahead=4)):
        assert key == given
        assert len(drawn) <= given + 4


def test_a_run_that_is_stopped_early_leaves_a_pool_that_can_be_used(tmp_path: Path, pool: DecodePool) -> None:
    photo = write_photo(tmp_path / "photo.png", TAME)
    with closing(pool.prepare(((key, photo) for key in range(100)), SMALL, ahead=50)) as results:
        next(results)
    assert outcomes(pool, [photo]) == ["prepared"]


def test_workers_load_neither_torch_nor_faiss_nor_sqlite(tmp_path: Path, pool: DecodePool) -> None:
    assert outcomes(pool, [write_photo(tmp_path / "photo.png", TAME)]) == ["prepared"]
    assert workers()
    for worker in workers():
        assert not [name for name in libraries_of(worker) if any(lib in name for lib in ("torch", "faiss", "sqlite"))]


def test_a_photo_that_crashes_its_decoder_is_skipped_and_the_others_are_not(tmp_path: Path) -> None:
    colors = [TAME, SEGFAULT, TAME, ABORT, TAME, TAME]
    photos = [write_photo(tmp_path / f"{number}.png", color) for number, color in enumerate(colors)]
    with DecodePool(workers=2) as pool:
        results = [result for _, result in pool.prepare(enumerate(photos), WILD, ahead=6)]
    crashed = [results[1], results[3]]
    assert all(isinstance(result, Prepared) for result in results if result not in crashed)
    assert [(e.reason, e.detail) for e in crashed if isinstance(e, Undecodable)] == [
        ("crashed", "its decoder was stopped: Segmentation fault"),
        ("crashed", "its decoder was stopped: Aborted"),
    ]


def test_a_photo_whose_decoder_hangs_is_skipped_after_the_time_cap(tmp_path: Path) -> None:
    hanging, tame = write_photo(tmp_path / "hanging.png", HANG), write_photo(tmp_path / "tame.png", TAME)
    with DecodePool(workers=1, seconds=3.0) as pool:
        assert outcomes(pool, [tame, hanging, tame], WILD) == ["prepared", "timeout", "prepared"]


def test_a_vast_photo_is_skipped_after_a_time_cap_that_is_too_short_for_it(tmp_path: Path) -> None:
    Image.new("1", (15_000, 15_000)).save(tmp_path / "vast.png")
    with DecodePool(workers=1, seconds=0.05) as pool:
        [(_, result)] = pool.prepare([(None, tmp_path / "vast.png")], SMALL, ahead=1)
    assert isinstance(result, Undecodable)
    assert (result.reason, result.detail) == ("timeout", "stopped after 0.05 seconds")


def test_a_single_picture_is_held_to_the_time_cap_too(tmp_path: Path) -> None:
    Image.new("1", (15_000, 15_000)).save(tmp_path / "vast.png")
    with DecodePool(workers=1, seconds=0.05) as pool, pytest.raises(Undecodable, match=r"0\.05 seconds"):
        pool.decode(tmp_path / "vast.png")


def test_workers_that_end_for_another_reason_than_their_photo_cost_no_photo(tmp_path: Path) -> None:
    photos = [write_photo(tmp_path / f"{color}.png", color) for color in (TAME, DIE_ONCE, TAME)]
    others = workers()
    wild = Wild(40, 32, tmp_path / "witness")
    with DecodePool(workers=2) as pool:
        assert outcomes(pool, photos, wild) == ["prepared"] * 3
        started = workers(but=others)
        assert len(started) == 2
        for worker in started:
            os.kill(worker, signal.SIGKILL)
        assert are_gone(started, within=10)
        assert outcomes(pool, photos, wild) == ["prepared"] * 3


def test_closing_ends_all_workers_in_the_middle_of_a_photo(tmp_path: Path) -> None:
    photos = [write_photo(tmp_path / f"{color}.png", color) for color in (TAME, HANG, HANG_ALONE)]
    others = workers()
    with DecodePool(workers=2, seconds=AN_HOUR) as pool:
        next(pool.prepare(enumerate(photos), WILD, ahead=3))
        started = workers(but=others)
        assert started
    assert are_gone(started, within=0)


@pytest.mark.parametrize(("program", "cause"), [("/bin/false", "exit code 1"), ("/no/program", "No such file")])
def test_workers_that_cannot_be_started_are_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, cause: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    photo = write_photo(tmp_path / "photo.png", TAME)
    with DecodePool() as pool, pytest.raises(DecodersFailed, match=cause):
        outcomes(pool, [photo])


PARENT = """
import os, signal, sys
from pathlib import Path
from mocosearch.images.decode_pool import DecodePool
from tests.images.wild import Wild
from tests.processes import spawned_by

seconds, witness, *photos = sys.argv[1:]
wild = Wild(40, 32, Path(witness))
pool = DecodePool(workers=1, seconds=float(seconds))
def work(photo):
    list(pool.prepare([(None, Path(photo))], wild, ahead=1))
    return spawned_by(os.getpid(), doing=b"decode_worker")
workers = work(photos[0])
try:
    print(*workers, flush=True)
    for photo in photos[1:]:
        work(photo)
    signal.pause()
except KeyboardInterrupt:
    print(work(photos[0]) == workers, flush=True)
    pool.close()
"""


def start_parent(*arguments: object) -> tuple["subprocess.Popen[str]", list[int]]:
    """A process in a group of its own that decodes the first photo, names its workers and goes on."""
    command = [sys.executable, "-c", PARENT, *map(str, arguments)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert parent.stdout is not None
    return parent, [int(number) for number in parent.stdout.readline().split()]


@pytest.mark.parametrize(("hang", "seconds"), [(HANG_ALONE, AN_HOUR), (HANG, 2.0)])
def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path, hang: str, seconds: float) -> None:
    """At once; at the time cap when a decoder lets nothing else run."""
    photos = write_photo(tmp_path / "tame.png", TAME), write_photo(tmp_path / "hanging.png", hang)
    parent, started = start_parent(seconds, tmp_path / "witness", *photos)
    while not (tmp_path / "witness").exists():
        time.sleep(0.05)
    parent.kill()
    parent.communicate()
    assert len(started) == 1
    assert are_gone(started, within=30)


def test_ctrl_c_reaches_only_the_parent_which_can_go_on_with_its_workers(tmp_path: Path) -> None:
    parent, started = start_parent(AN_HOUR, tmp_path / "witness", write_photo(tmp_path / "tame.png", TAME))
    os.killpg(parent.pid, signal.SIGINT)
    out, _ = parent.communicate()
    assert (out, parent.returncode, len(started)) == ("True\n", 0, 1)


def test_waiting_for_the_turn_to_decode_a_giant_does_not_count_as_time_of_the_photo() -> None:
    code = "import signal, sys, time\nfrom mocosearch.images.decode_worker import OneGiantAtATime\n"
    code += "signal.setitimer(signal.ITIMER_REAL, 0.5)\n"
    code += "with OneGiantAtATime(int(sys.argv[1])):\n  print('in', flush=True)\n  time.sleep(3600)"
    with tempfile.TemporaryFile() as turns:
        fcntl.lockf(turns, fcntl.LOCK_EX)
        command = [sys.executable, "-c", code, str(turns.fileno())]
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=(turns.fileno(),))
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        fcntl.lockf(turns, fcntl.LOCK_UN)
        out, _ = waiting.communicate()
    assert (out, waiting.returncode) == ("in\n", -signal.SIGALRM)  # the time that was left went on
