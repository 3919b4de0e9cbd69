"""The pipeline: every photo comes back under its own key, in order, whatever its neighbors are."""

import contextlib
import itertools
import os
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from mocosearch.embed import Embedding, Shares, embed_photos
from mocosearch.encoders import Encoder, EncoderCard, Preprocessing
from mocosearch.images.decode import Undecodable, decode
from mocosearch.nets import build_backbone

BAD = ("text", "empty", "cut", "gone", "folder")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    torch.manual_seed(0)
    card = EncoderCard("resnet18", True, None, "nothing", 0, 0, "none", "")
    preprocessing = Preprocessing(resize=8, crop=8, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    return Encoder(build_backbone("resnet18", small_stem=True), card, preprocessing, torch.device("cpu"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number in range(12):
        values = np.random.default_rng(number).integers(0, 256, (4, 5, 3), dtype=np.uint8)
        exif = Image.Exif()
        exif[0x0112], exif[0x0132] = (6, "2020:02:03 04:05:06") if number % 2 else (1, "")
        image = Image.fromarray(values).resize((40, 24), Image.Resampling.BICUBIC)
        image.save(folder / str(number), "JPEG" if number % 3 else "PNG", exif=exif)
    (folder / "text").write_text("a text file called .jpg")
    (folder / "empty").touch()
    (folder / "cut").write_bytes((folder / "1").read_bytes()[:-200])
    (folder / "folder").mkdir()
    return folder


def alone(encoder: Encoder, path: Path) -> NDArray[np.float32]:
    return encoder.embed_image(decode(path, short_side=encoder.preprocessing.resize).image)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.sampled_from([*map(str, range(12)), *BAD]), max_size=25), batch_size=st.integers(1, 9))
def test_every_key_comes_back_in_order_with_its_own_vector_or_reason(
    encoder: Encoder, folder: Path, names: list[str], batch_size: int
) -> None:
    photos = [((position, name), folder / name) for position, name in enumerate(names)]
    results = list(embed_photos(photos, encoder, batch_size=batch_size))
    assert [key for key, _ in results] == [key for key, _ in photos]
    for (_, name), result in results:
        assert isinstance(result, Undecodable) == (name in BAD)
        if isinstance(result, Embedding):
            assert result.vector @ alone(encoder, folder / name) > 0.999
            assert result.content_hash == blake2b((folder / name).read_bytes(), digest_size=16).digest()


def test_size_and_moment_are_of_the_upright_original(encoder: Encoder, folder: Path) -> None:
    (_, lying), (_, turned) = embed_photos([("a", folder / "2"), ("b", folder / "1")], encoder)
    assert isinstance(lying, Embedding)
    assert isinstance(turned, Embedding)
    assert (lying.width, lying.height, lying.taken_at) == (40, 24, None)
    assert (turned.width, turned.height, turned.taken_at) == (24, 40, "2020-02-03T04:05:06")


def test_no_photos_give_no_results(encoder: Encoder) -> None:
    assert list(embed_photos(iter(()), encoder)) == []


def test_only_bad_photos_give_only_reasons(encoder: Encoder, folder: Path) -> None:
    results = dict(embed_photos(((name, folder / name) for name in BAD), encoder, batch_size=2))
    reasons = {name: result.reason for name, result in results.items() if isinstance(result, Undecodable)}
    assert reasons == {
        "text": "not-an-image",
        "empty": "empty",
        "cut": "truncated",
        "gone": "io",
        "folder": "not-an-image",
    }


def test_keys_are_drawn_a_bounded_number_ahead(encoder: Encoder, folder: Path) -> None:
    drawn = 0

    def endless() -> Iterator[tuple[int, Path]]:
        nonlocal drawn
        for drawn in itertools.count(1):
            yield drawn, folder / str(drawn % 12)

    results = embed_photos(endless(), encoder, batch_size=4)
    for count, (key, _) in enumerate(itertools.islice(results, 40), start=1):
        assert key == count
        assert drawn <= count + (2 * torch.get_num_threads() + 3) * 4
    results.close()


def at_work() -> list[str]:
    """What of the pipeline is alive: the names of its threads, and the processes that decode."""
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith(("decode", "embed"))]
    return threads + [command for command in commands_below() if "decode_worker" in command]


def commands_below() -> list[str]:
    """The command lines of the processes that this one has started."""
    parent = f"PPid:\t{os.getpid()}\n"
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended just now
            if parent in (process / "status").read_text():
                found.append((process / "cmdline").read_text())
    return found


def test_closing_early_ends_threads_and_processes_without_decoding_the_rest(encoder: Encoder, folder: Path) -> None:
    results = embed_photos(((n, folder / str(n % 12)) for n in range(1000)), encoder, batch_size=4)
    next(results)
    assert any("decode_worker" in name for name in at_work())
    results.close()
    assert not at_work()


def test_an_error_of_the_photo_list_reaches_the_caller_and_ends_all(encoder: Encoder, folder: Path) -> None:
    def failing() -> Iterator[tuple[int, Path]]:
        yield 0, folder / "0"
        raise ConnectionError("the drive is gone")

    with pytest.raises(ConnectionError):
        list(embed_photos(failing(), encoder))
    assert not at_work()


def test_decoding_goes_on_while_the_caller_is_busy(encoder: Encoder, folder: Path) -> None:
    """The photos of the next batches are handed to decoders although nobody has asked for them yet."""
    handed_over = threading.Event()

    class Watched(type(folder)):  # type: ignore[misc]
        def __reduce__(self) -> tuple[type[Path], tuple[str]]:
            handed_over.set()
            return Path, (str(self),)

    photos = [(n, folder / str(n)) for n in range(6)] + [(6, Watched(folder / "6"))]
    results = embed_photos(photos, encoder, batch_size=3)
    next(results)
    assert handed_over.wait(timeout=60)
    results.close()


def test_no_file_descriptor_is_left_open(encoder: Encoder, folder: Path) -> None:
    photos = [(name, folder / name) for name in [*map(str, range(12)), *BAD]] * 3
    list(embed_photos(photos, encoder, batch_size=5))
    before = set(Path("/proc/self/fd").iterdir())
    list(embed_photos(photos, encoder, batch_size=5))
    assert set(Path("/proc/self/fd").iterdir()) <= before


def test_a_kept_reason_keeps_no_pixels_alive(encoder: Encoder, folder: Path) -> None:
    [(_, result)] = embed_photos([("cut", folder / "cut")], encoder)
    assert isinstance(result, Undecodable)
    assert result.__traceback__ is None
    assert result.__context__ is None


def test_vectors_of_a_batch_do_not_share_its_memory(encoder: Encoder, folder: Path) -> None:
    results = [result for _, result in embed_photos([(n, folder / str(n)) for n in range(8)], encoder)]
    kept = results[3]
    assert isinstance(kept, Embedding)
    assert kept.vector.base is None


def test_with_several_lanes_every_photo_keeps_its_vector_and_torch_its_threads(encoder: Encoder, folder: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        results = list(embed_photos([(n, folder / str(n % 12)) for n in range(60)], encoder, batch_size=2))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert [key for key, _ in results] == list(range(60))
    expected = [alone(encoder, folder / str(n)) for n in range(12)]
    for key, result in results:
        assert isinstance(result, Embedding)
        assert result.vector @ expected[key % 12] > 0.999


def test_two_runs_at_once_leave_torch_its_threads(encoder: Encoder, folder: Path) -> None:
    def run() -> Generator[object]:
        return embed_photos([(n, folder / str(n)) for n in range(8)], encoder, batch_size=1)

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other, ThreadPoolExecutor(1) as later:
        one.submit(torch.set_num_threads, 3).result()
        first, second = run(), run()
        one.submit(next, first).result()
        other.submit(next, second).result()
        one.submit(list, first).result()
        other.submit(list, second).result()
        assert later.submit(torch.get_num_threads).result() == 3
        one.submit(torch.set_num_threads, torch.get_num_threads()).result()


@given(
    cores=st.integers(1, 256), crop=st.integers(1, 1024), expected=st.none() | st.integers(0, 10**7), gpu=st.booleans()
)
def test_cores_are_shared_and_never_oversubscribed_by_the_network(
    cores: int, crop: int, expected: int | None, gpu: bool
) -> None:
    shares = Shares.of(torch.device("cuda" if gpu else "cpu"), crop, cores, expected)
    assert 1 <= shares.decoders <= cores
    assert shares.batch >= 1
    assert shares.lanes >= 1
    if not gpu:
        assert 1 <= shares.lanes * shares.cores_a_lane <= cores
        assert shares.lanes * shares.batch * crop**2 <= 16 * max(8 * 224**2, crop**2)  # bounded memory


def test_a_handful_of_photos_gets_one_decoder_and_all_cores_for_its_one_batch() -> None:
    assert Shares.of(torch.device("cpu"), 224, 4, 5) == Shares(decoders=1, lanes=1, cores_a_lane=4, batch=8)
    assert Shares.of(torch.device("cpu"), 224, 4, None) == Shares(decoders=4, lanes=4, cores_a_lane=1, batch=8)
    assert Shares.of(torch.device("cpu"), 64, 2, None) == Shares(decoders=2, lanes=2, cores_a_lane=1, batch=64)
