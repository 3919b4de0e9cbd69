"""Pipelines from a folder of photos to vectors, ours and others' with the same ResNet-50, and what each costs.

The others are written anew, in the style of the release that is named beside each, with its decoder, its precision and
its way to spread the work; hashing and storing included where they do it. Models are loaded before the clock starts,
processes and threads are started while it runs.
"""

import hashlib
import itertools
import os
import shutil
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn
from torchvision import transforms

from bench.peak_memory import PeakMemory
from mocosearch.encoders import Encoder, load_encoder

Job = Callable[[], int]  # goes through all photos and returns how many they are
Floats = NDArray[np.float32]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Assets:
    """What all contestants start from."""

    photos: Path
    encoder: Path  # folder
    onnx: Path  # the same network as ONNX
    scratch: Path

    def files(self) -> list[Path]:
        return sorted(self.photos.rglob("*.jpg"))

    def load(self) -> Encoder:
        return load_encoder(self.encoder, _CPU)


# ---- ours


def mocosearch(assets: Assets) -> Job:
    """What `mocosearch index` does in a new library: walk, decode, hash, embed, commit, make the search structure."""
    from mocosearch.library import Library

    folder = assets.scratch / "index"
    shutil.rmtree(folder, ignore_errors=True)
    library = Library.create(assets.photos, assets.load(), folder)
    _ = library.encoder  # loaded before the clock starts, as the others' are

    def job() -> int:
        with library:
            return library.update().embedded

    return job


def decoding_alone(assets: Assets) -> Job:
    """Our decoders on all cores, nothing else to do: no indexer with this decoder can be faster."""
    from mocosearch.images.decode_pool import DecodePool

    geometry = assets.load().preprocessing.geometry

    def job() -> int:
        with DecodePool() as pool:
            return sum(1 for _ in pool.prepare(enumerate(assets.files()), geometry, ahead=256))

    return job


def network_alone(assets: Assets) -> Job:
    """Our network on all cores with one batch over and over: no indexer with this network can be faster."""
    from mocosearch.embed import Shares

    encoder, count = assets.load(), len(assets.files())
    cores = torch.get_num_threads()
    shares = Shares.of(_CPU, encoder.preprocessing.crop, cores, count)
    batch = torch.randint(0, 256, (shares.batch, 3, 224, 224), dtype=torch.uint8).contiguous(
        memory_format=torch.channels_last
    )
    encoder.embed(batch)

    def job() -> int:
        with ThreadPoolExecutor(
            shares.lanes, initializer=torch.set_num_threads, initargs=(shares.cores_a_lane,)
        ) as lanes:
            return sum(
                map(
                    len,
                    lanes.map(
                        encoder.embed, torch.split(batch.repeat(-(-count // len(batch)), 1, 1, 1)[:count], len(batch))
                    ),
                )
            )

    return job


# ---- others


def rclip_style(assets: Assets, batch: int) -> Job:
    """rclip 3.3.0: threads decode with Pillow at full size, three batches ahead; ONNX Runtime in float32; SQLite.

    Its own settings: batches of 8; `--indexing-batch-size` is what its documentation offers.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(assets.onnx, options, providers=["CPUExecutionProvider"])
    database = sqlite3.connect(assets.scratch / "rclip.sqlite")
    database.execute("CREATE TABLE IF NOT EXISTS images (path TEXT, hash TEXT, vector BLOB)")

    def read(path: Path) -> tuple[Path, str, Floats]:
        hasher = hashlib.sha256()
        with path.open("rb") as file:
            hasher.update(file.read(1 << 20))
            if file.seek(0, os.SEEK_END) > 1024:
                file.seek(-1024, os.SEEK_END)
                hasher.update(file.read(1024))
        return path, hasher.hexdigest(), _prepared_by_numpy(Image.open(path))

    def store(group: list[tuple[Path, str, Floats]]) -> int:
        (vectors,) = session.run(None, {"input": np.stack([pixels for _, _, pixels in group])})
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        for (path, digest, _), vector in zip(group, vectors, strict=True):
            database.execute("INSERT INTO images VALUES (?, ?, ?)", (str(path), digest, vector.tobytes()))
        return len(group)

    def job() -> int:
        with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
            photos = _ahead(pool, read, assets.files(), 3 * batch)
            count = sum(store(group) for group in iter(lambda: list(itertools.islice(photos, batch)), []))
        database.commit()
        return count

    return job


def clip_retrieval_style(assets: Assets, batch: int, workers: int) -> Job:
    """clip-retrieval 2.45.0: a DataLoader, a traced float32 network, vectors as float16 kept to the end, one .npy file.

    Its own settings: batches of 256, 4 processes; `batch_size` and `num_prepro_workers` are what its documentation
    offers.
    """
    network = assets.load().network.to(memory_format=torch.contiguous_format)
    with torch.no_grad():
        traced = torch.jit.trace(network, torch.zeros(1, 3, 224, 224))
    view = transforms.Compose(
        [
            transforms.Resize(224, transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(224),
            lambda image: image.convert("RGB"),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    loader = torch.utils.data.DataLoader(
        _Photos(assets.files(), view), batch, num_workers=workers, prefetch_factor=2, multiprocessing_context="fork"
    )

    @torch.no_grad()
    def job() -> int:
        kept = []
        for pixels in loader:
            features = traced(pixels)
            kept.append((features / features.norm(dim=-1, keepdim=True)).to(torch.float16).numpy())
        np.save(assets.scratch / "vectors.npy", np.concatenate(kept))
        return sum(map(len, kept))

    return job


def naive(assets: Assets) -> Job:
    """One photo after the other: Pillow, torchvision's transforms, the float32 network."""
    network = assets.load().network.to(memory_format=torch.contiguous_format)
    view = transforms.Compose(
        [
            transforms.Resize(256),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )

    @torch.no_grad()
    def job() -> int:
        vectors = [
            nn.functional.normalize(network(view(Image.open(path).convert("RGB"))[None])) for path in assets.files()
        ]
        return len(torch.cat(vectors))

    return job


CORES = os.cpu_count() or 1
CEILINGS: dict[str, Callable[[Assets], Job]] = {"decoding alone": decoding_alone, "network alone": network_alone}
INDEXERS: dict[str, Callable[[Assets], Job]] = {
    **CEILINGS,
    "mocosearch": mocosearch,
    "rclip-style": partial(rclip_style, batch=8),
    "rclip-style with batch 32": partial(rclip_style, batch=32),
    "clip-retrieval-style": partial(clip_retrieval_style, batch=256, workers=4),
    "clip-retrieval-style with batch 32": partial(clip_retrieval_style, batch=32, workers=CORES),
    "one at a time": naive,
}


@dataclass(frozen=True)
class _Photos(torch.utils.data.Dataset[torch.Tensor]):
    files: list[Path]
    view: Callable[[Image.Image], torch.Tensor]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> torch.Tensor:
        return self.view(Image.open(self.files[number]))


def _prepared_by_numpy(image: Image.Image) -> Floats:
    """Resize, crop and normalize as a ResNet-50 wants it: float32 (3, 224, 224)."""
    image = image.convert("RGB")
    scale = 224 / min(image.size)
    image = image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BICUBIC)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    pixels = np.array(image.crop((left, top, left + 224, top + 224)), dtype=np.float32) / 255
    normal: Floats = (pixels - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
    return normal.transpose(2, 0, 1)


def _ahead(pool: ThreadPoolExecutor, read: Callable[[Path], Any], files: Iterable[Path], most: int) -> Iterator[Any]:
    """Yield what `read` makes of the files, in order, with `most` of them in work."""
    files, waiting = iter(files), deque[Any]()
    while True:
        waiting.extend(pool.submit(read, path) for path in itertools.islice(files, most - len(waiting)))
        if not waiting:
            return
        yield waiting.popleft().result()


# ---- what it costs


@dataclass(frozen=True)
class Cost:
    """What going through all photos cost."""

    photos: int
    seconds: float
    peak_bytes: int  # anonymous memory of the process and all below it


def cost(name: str, assets: Assets) -> Cost:
    """Let one contestant work."""
    job = INDEXERS[name](assets)
    with PeakMemory() as memory:
        before = perf_counter()
        count = job()
        seconds = perf_counter() - before
    return Cost(count, seconds, memory.peak)
