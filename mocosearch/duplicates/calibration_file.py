"""The calibration of the last run, kept in the index folder until the library or its encoder changes."""

import json
import zlib
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from mocosearch.duplicates.threshold import Calibration, Threshold
from mocosearch_index.atomic import atomic_write, disk_errors_named
from mocosearch_index.errors import DiskFull, NotWritable, StorageFailed
from mocosearch_index.image_index import ImageIndex

_FORMAT = 1
# In a folder of its own: a writer of the index clears its folder of half-written files.
_PLACE = Path("duplicates") / "calibration.json"


def load(index: ImageIndex) -> Calibration | None:
    """Return what `save` kept for this very state of the library; None when there is nothing, or it is damaged."""
    try:
        stored = json.loads((index.folder / _PLACE).read_bytes())
        content = stored["content"]
        if stored["crc32"] != _checksum(content) or content["made_from"] != _made_from(index):
            return None
        upright, turned = Threshold(**content["upright"]), Threshold(**content["turned"])
        return Calibration(upright, turned, content["copied"], content["compared"])
    except (OSError, ValueError, LookupError, TypeError):  # it is only a cache
        return None


def save(index: ImageIndex, calibration: Calibration) -> None:
    """Keep a calibration; where nothing can be written it is made again the next time."""
    content = {"made_from": _made_from(index), **asdict(calibration)}
    path = index.folder / _PLACE
    with suppress(DiskFull, NotWritable, StorageFailed), disk_errors_named(path.parent):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        atomic_write(path, json.dumps({"content": content, "crc32": _checksum(content)}, indent=2).encode())


def _made_from(index: ImageIndex) -> list[str | int]:
    return [_FORMAT, index.encoder.fingerprint, index.change]


def _checksum(content: object) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
