"""The parts of search_latency.py, each a process of its own, so that its memory is its own. No torch in here.

python -m bench.search_parts PART '{"json": "arguments"}'      # prints one line of JSON
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import faiss
import numpy as np

from bench.peak_memory import PeakMemory
from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, EncoderIdentity, FileStamp, Float32, SearchLevel, SearchSettings

K = 10
QUERIES = 200  # to measure recall with; none of them is stored
_LATENT = 48  # dimensions in which photos differ, as features of an encoder do; the rest is noise
_PHOTOS_A_CLUSTER = 100
_BLOCK = 20_000
_LOOK_SECONDS = 0.01  # at the memory: what is measured may take a tenth of a second
Search = Callable[[Float32], np.ndarray]  # queries (q, dim) -> ids (q, K)


def vectors(start: int, stop: int, dim: int, clusters: int) -> Float32:
    """Return unit vectors `start` to `stop` of an endless clustered collection."""
    basis = np.random.default_rng(1).standard_normal((_LATENT, dim), np.float32)
    centers = np.random.default_rng(2).standard_normal((clusters, _LATENT), np.float32)
    dice = np.random.default_rng([3, start])
    latent = centers[dice.integers(0, clusters, stop - start)]
    latent += 0.5 * dice.standard_normal(latent.shape, np.float32)
    found = latent @ basis + 0.7 * dice.standard_normal((stop - start, dim), np.float32)
    unit: Float32 = found / np.linalg.norm(found, axis=1, keepdims=True)
    return unit


def queries(count: int, dim: int) -> Float32:
    """Return vectors of the same kind that no index of `count` photos holds."""
    return vectors(10**9, 10**9 + QUERIES, dim, max(1, count // _PHOTOS_A_CLUSTER))


def photos(start: int, found: Float32) -> Iterator[EmbeddedPhoto]:
    """Yield photos from number `start` on with these vectors."""
    for number, vector in enumerate(found, start):
        yield EmbeddedPhoto(FileStamp(b"%d.jpg" % number, 1, 1), b"%16d" % number, 640, 480, None, vector)


def make(folder: Path, count: int, dim: int) -> dict[str, Any]:
    """Make an index of `count` photos, and beside it the truth: what exact search by the plain vectors finds."""
    asked, clusters = queries(count, dim), max(1, count // _PHOTOS_A_CLUSTER)
    heap = faiss.ResultHeap(QUERIES, K, keep_max=True)
    with ImageIndex.create(folder, root=folder.parent, encoder=EncoderIdentity("0" * 16, dim, "dice")) as index:
        for start in range(0, count, _BLOCK):
            found = vectors(start, min(count, start + _BLOCK), dim, clusters)
            index.commit(list(photos(start, found)))
            stored = found.astype(np.float16).astype(np.float32)
            scores, places = faiss.knn(asked, stored, K, metric=faiss.METRIC_INNER_PRODUCT)
            heap.add_result(scores, places + start + 1)  # ids go from 1 on
    heap.finalize()
    np.save(_truth(folder, whiten=False), heap.I)
    return {}


def tune(folder: Path, level: SearchLevel, whiten: bool) -> dict[str, Any]:
    """Make the search structure of a level and its file, as the end of an update does.

    What the exact level of whitened vectors finds is the truth for the others.
    """
    with PeakMemory(_LOOK_SECONDS) as memory, ImageIndex.open(folder, writable=True) as index:
        before = perf_counter()
        index.set_settings(replace(index.settings, search=SearchSettings(level, whiten=whiten)))
        index.save_search_file()
        seconds = perf_counter() - before
        report = asdict(index.search_report())
    if whiten and level == "exact":
        with ImageIndex.open(folder) as index:
            np.save(_truth(folder, whiten), _ours(index)(queries(index.counts()["indexed"], index.encoder.dim)))
    return {"seconds": seconds, "peak": memory.gained_at_peak, "report": report}


def latency(folder: Path, rounds: int, each: int) -> dict[str, Any]:
    """Search one picture after the other through ImageIndex, and by calling FAISS on what is in the same file."""
    with PeakMemory(_LOOK_SECONDS) as memory, ImageIndex.open(folder) as index:
        dim = index.encoder.dim
        asked = queries(index.counts()["indexed"], dim)
        index.search(asked[:1], K)
    with ImageIndex.open(folder) as index:
        report = index.search_report()
        truth = np.load(_truth(folder, report.whitened))
        contestants = {"ours": _ours(index), "raw": _raw(next(folder.glob("search-*.faiss")), report.cells_visited)}
        taken = interleaved(contestants, asked, rounds, each)
        recall = recall_of(contestants["ours"](asked), truth)
    return {
        "taken": taken,
        "recall": recall,
        "memory": memory.gained,
        "peak": memory.gained_at_peak,
        "report": asdict(report),
    }


def peer(folder: Path, name: str, rounds: int, each: int) -> dict[str, Any]:
    """Search with hnswlib or usearch at our recall, in turns with ours."""
    truth = np.load(_truth(folder, whiten=False))
    with ImageIndex.open(folder) as index:
        ids, stored = index.all_vectors()
        asked = queries(len(ids), index.encoder.dim)
        ours = _ours(index)
        target = recall_of(ours(asked), truth)
        before = perf_counter()
        with PeakMemory(_LOOK_SECONDS) as memory:
            at_effort = {"hnswlib": _hnswlib, "usearch": _usearch}[name](ids, stored.astype(np.float32))
        seconds = perf_counter() - before
        for effort in (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512):
            theirs = at_effort(effort)
            recall = recall_of(theirs(asked), truth)
            if recall >= target:
                break
        taken = interleaved({"ours": ours, name: theirs}, asked, rounds, each)
    return {
        "taken": taken,
        "recall": recall,
        "target": target,
        "memory": memory.gained,
        "seconds": seconds,
    }


def grow(folder: Path, added: int) -> dict[str, Any]:
    """Add photos as an update does; how long the file takes to be saved, and a reader to follow."""
    with ImageIndex.open(folder, writable=True) as index, ImageIndex.open(folder) as reader:
        count, dim = index.counts()["indexed"], index.encoder.dim
        asked = queries(count, dim)
        reader.search(asked[:1], K)
        new = vectors(2 * 10**9, 2 * 10**9 + added, dim, max(1, count // _PHOTOS_A_CLUSTER))
        with PeakMemory(_LOOK_SECONDS) as memory:
            times = [perf_counter()]
            index.commit(list(photos(count, new)))
            times.append(perf_counter())
            index.save_search_file()
            times.append(perf_counter())
            reader.refresh()
            times.append(perf_counter())
        [[(_, score)]] = reader.search(new[-1:], 1)
    commit, save, follow = np.diff(times).tolist()
    return {
        "commit": commit,
        "save": save,
        "follow": follow,
        "peak": memory.gained_at_peak,
        "found": score > 0.99,
    }


def interleaved(contestants: dict[str, Search], asked: Float32, rounds: int, each: int) -> dict[str, list[float]]:
    """Return each contestant's seconds a query, one entry a round; another one goes first in every round."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(-1, rounds):  # the first round warms up
        for name in names[number % len(names) :] + names[: number % len(names)]:
            before = perf_counter()
            for query in range(each):
                place = (number * each + query) % QUERIES
                contestants[name](asked[place : place + 1])
            if number >= 0:
                taken[name].append((perf_counter() - before) / each)
    return taken


def recall_of(found: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of `truth` (q, K) that was found."""
    return float((truth[:, :, None] == found[:, None, :]).any(axis=2).mean())


def _truth(folder: Path, whiten: bool) -> Path:
    return folder.parent / f"truth-{'whitened' if whiten else 'plain'}.npy"


def _ours(index: ImageIndex) -> Search:
    def search(asked: Float32) -> np.ndarray:
        return np.array([[photo_id for photo_id, _ in hits] for hits in index.search(asked, K)])

    return search


def _raw(path: Path, visited: int | None) -> Search:
    raw = faiss.read_index(str(path))
    if visited is not None:
        faiss.extract_index_ivf(raw).nprobe = visited
        if isinstance(raw, faiss.IndexPreTransform):
            faiss.downcast_index(raw.index).qb = 8
    return lambda asked: raw.search(asked, K)[1]


def _hnswlib(ids: np.ndarray, stored: Float32) -> Callable[[int], Search]:
    import hnswlib

    index = hnswlib.Index("ip", stored.shape[1])
    index.init_index(len(ids), M=16, ef_construction=100, random_seed=1)
    index.add_items(stored, ids)

    def at_effort(effort: int) -> Search:
        index.set_ef(effort)
        return lambda asked: index.knn_query(asked, K)[0].astype(np.int64)

    return at_effort


def _usearch(ids: np.ndarray, stored: Float32) -> Callable[[int], Search]:
    from usearch.index import Index

    index = Index(ndim=stored.shape[1], metric="ip", dtype="f16", connectivity=16, expansion_add=100)
    index.add(ids, stored)

    def at_effort(effort: int) -> Search:
        index.expansion_search = effort
        return lambda asked: np.atleast_2d(index.search(asked, K).keys).astype(np.int64)

    return at_effort


_PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "make": make,
    "tune": tune,
    "latency": latency,
    "peer": peer,
    "grow": grow,
}


def main(arguments: Sequence[str]) -> None:
    part, values = arguments[0], json.loads(arguments[1])
    print(json.dumps(_PARTS[part](Path(values.pop("folder")), **values)))


if __name__ == "__main__":
    main(sys.argv[1:])
