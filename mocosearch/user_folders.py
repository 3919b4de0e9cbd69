"""What mocosearch remembers between commands, in the user's data folder: small JSON files, each written whole."""

import json
import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

from mocosearch.errors import NoEncoder
from mocosearch_index.atomic import atomic_write, disk_errors_named, not_writable
from mocosearch_index.paths import shown

_HOME = "MOCOSEARCH_HOME"  # puts everything below one folder of one's choice
_ENCODER = "current-encoder.json"
_TRAINED = "trained-encoders.json"
_LIBRARY = "last-library.json"
_INDEXES = "index-folders.json"


def data_folder() -> Path:
    """Return where things are remembered; it need not exist yet."""
    home = os.environ.get(_HOME)
    return Path(home).absolute() if home else user_data_path("mocosearch", appauthor=False)


def cache_folder() -> Path:
    """Return where things go that can be made again at will; it need not exist yet."""
    home = os.environ.get(_HOME)
    return Path(home).absolute() / "cache" if home else user_cache_path("mocosearch", appauthor=False)


def current_encoder() -> Path | None:
    """Return the encoder that `train` finished last, if any; it may be gone by now."""
    return _path(_read(_ENCODER).get("path"))


def current_fingerprint() -> str | None:
    """Return the fingerprint that the current encoder states, if there is one, without loading it."""
    current = current_encoder()
    return None if current is None else _fingerprint(current)


def trained_encoder(fingerprint: str) -> Path | None:
    """Return the encoder with this fingerprint that was trained on this machine, if it is still there."""
    places = (_path(_read(_TRAINED).get(fingerprint)), current_encoder())
    return next((place for place in places if place and _fingerprint(place) == fingerprint), None)


def encoder_trained_last() -> Path:
    """Return the current encoder; NoEncoder, which says how to get one, when there is none or it is gone."""
    current = current_encoder()
    if current is not None and current.exists():
        return current
    gone = "" if current is None else f" (the one trained last, {shown(current)}, is gone)"
    raise NoEncoder(
        f"There is no encoder yet{gone}: make one with `mocosearch train`, or name a file, a folder or a download with "
        "--encoder, such as moco-v2-800ep (ResNet-50 of the MoCo authors, CC-BY-NC, some hundred MB)."
    )


def set_current_encoder(path: Path) -> None:
    """Make the encoder at `path` the one that `index` takes when none is named, and remember where it was trained."""
    place = str(path.absolute())
    _write(_ENCODER, {"path": place})
    fingerprint = _fingerprint(path)
    if fingerprint is not None:
        _write(_TRAINED, _read(_TRAINED) | {fingerprint: place})


def last_library() -> Path | None:
    """Return the root of the library indexed last, if any; it may be gone by now."""
    return _path(_read(_LIBRARY).get("path"))


def set_last_library(root: Path) -> None:
    """Make the library of `root` the one that commands use when none is named."""
    _write(_LIBRARY, {"path": str(root.absolute())})


def index_folder_of(root: Path) -> Path | None:
    """Return where the index of `root` is, when it was put elsewhere than into `root`."""
    return _path(_read(_INDEXES).get(str(root.resolve())))


def remember_index_folder(root: Path, folder: Path | None) -> None:
    """Remember that the index of `root` is in `folder`, and of no other photos; None: in `root` itself."""
    place = None if folder is None else str(folder.resolve())
    before = _read(_INDEXES)
    known = {other: index for other, index in before.items() if other != str(root.resolve()) and index != place}
    if place is not None:
        known[str(root.resolve())] = place
    if known != before:
        _write(_INDEXES, known)


def _fingerprint(encoder: Path) -> str | None:
    """Return what an encoder states; None when it is gone or damaged."""
    try:
        facts = json.loads((encoder / "encoder.json").read_bytes())
    except (OSError, ValueError):
        return None
    fingerprint = facts.get("fingerprint") if isinstance(facts, dict) else None
    return fingerprint if isinstance(fingerprint, str) else None


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _read(name: str) -> dict[str, str]:
    """Return what was remembered; nothing when the file is missing or was damaged by hand."""
    try:
        values = json.loads((data_folder() / name).read_text("ascii"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _write(name: str, values: dict[str, str]) -> None:
    folder = data_folder()
    try:
        with disk_errors_named(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:  # no place for a folder
        raise not_writable(folder) from error
    # ASCII: a path that is not UTF-8 survives as escaped surrogates.
    atomic_write(folder / name, json.dumps(values, indent=1, ensure_ascii=True).encode("ascii"))
