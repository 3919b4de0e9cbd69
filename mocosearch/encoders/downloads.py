"""Files that are downloaded by name: with `timm_models`, the only time that mocosearch touches the network.

It does so because somebody typed the name, and only after size and license were told. What arrives is kept when it
is whole and is what its publisher states; else nothing is.
"""

import hashlib
import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from mocosearch import __version__
from mocosearch.errors import DownloadFailed
from mocosearch.user_folders import cache_folder
from mocosearch_index.atomic import atomic_path, disk_errors_named, remove_partials
from mocosearch_index.paths import shown

MIRROR = "MOCOSEARCH_MIRROR"  # environment variable: another address that holds the same files
_BASE = "https://dl.fbaipublicfiles.com/moco/moco_checkpoints"
_LICENSE = "CC-BY-NC, as its page said when it was released: no commercial use"
_TIMEOUT = 30.0  # seconds without a byte
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Published:
    """A file as its publisher describes it."""

    path: str  # below the base address
    hash_prefix: str
    trained_on: str
    license: str = _LICENSE
    base: str = _BASE
    algorithm: str = "md5"  # of the hash

    @property
    def file_name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


PUBLISHED = {
    "moco-v1-200ep": Published("moco_v1_200ep/moco_v1_200ep_pretrain.pth.tar", "b251726a", "ImageNet-1M"),
    "moco-v2-200ep": Published("moco_v2_200ep/moco_v2_200ep_pretrain.pth.tar", "59fd9945", "ImageNet-1M"),
    "moco-v2-800ep": Published("moco_v2_800ep/moco_v2_800ep_pretrain.pth.tar", "a04e12f8", "ImageNet-1M"),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """What a person should know before the download begins."""

    name: str
    url: str
    size: int | None  # bytes; None when the server does not say
    license: str


Announce = Callable[[Offer], None]
BytesCallback = Callable[[int], None]


def fetch(name: str, *, announce: Announce = lambda offer: None, progress: BytesCallback = lambda done: None) -> Path:
    """Return the file published as `name`, from the cache or else downloaded into it.

    `announce` and `progress` as for `fetch_file`.
    """
    return fetch_file(name, PUBLISHED[name], cache_folder() / "encoders", announce=announce, progress=progress)


def fetch_file(name: str, published: Published, folder: Path, *, announce: Announce, progress: BytesCallback) -> Path:
    """Return the file in `folder`, downloaded into it unless it is there.

    Before the first byte `announce` is told what will come (and may raise to prevent it); `progress` is told the
    number of bytes so far. Raises DownloadFailed, DiskFull or NotWritable, and then leaves nothing behind.
    """
    target = folder / published.file_name
    if target.exists():
        return target
    with disk_errors_named(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_suffix(".lock")):  # a second process waits for the first
            if not target.exists():
                remove_partials(target.parent)
                _download(name, published, target, announce, progress)
    return target


def _download(name: str, published: Published, target: Path, announce: Announce, progress: BytesCallback) -> None:
    url = f"{os.environ.get(MIRROR, published.base).rstrip('/')}/{published.path}"
    if not url.startswith(("https://", "http://")):
        raise DownloadFailed(f"{MIRROR} is no web address: set it to one that begins with https://.")
    try:
        request = urllib.request.Request(url, headers={"User-Agent": f"mocosearch/{__version__}"})
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=ssl.create_default_context()) as response:
            size = _size(response)
            announce(Offer(name, url, size, published.license))
            with atomic_path(target) as partial:
                digest = hashlib.new(published.algorithm, usedforsecurity=False)
                _save(response, partial, size, digest, progress)
                if not digest.hexdigest().startswith(published.hash_prefix):
                    found = f"{published.algorithm} {digest.hexdigest()[:8]}, not {published.hash_prefix}"
                    raise DownloadFailed(
                        f"{url} is not the file its publisher states ({found}), and was not kept: try again later, "
                        f"or set {MIRROR} to another address."
                    )
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DownloadFailed(
            f"{url} (license: {published.license}) could not be downloaded ({_cause(error)}): check the connection, or "
            f"fetch it elsewhere and put it at {shown(target)}."
        ) from error


def _save(
    response: http.client.HTTPResponse, path: Path, size: int | None, digest: "hashlib._Hash", progress: BytesCallback
) -> None:
    """Write the body to `path` and feed it to `digest`."""
    done = 0
    with path.open("wb") as file:
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done)
    if size is not None and done != size:
        raise http.client.IncompleteRead(b"", size - done)


def _size(response: http.client.HTTPResponse) -> int | None:
    text = response.headers.get("Content-Length", "")
    return int(text) if text.isdecimal() else None


def _cause(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code}"
    if isinstance(error, http.client.IncompleteRead):
        return f"it ended {error.expected} bytes early"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__
