"""What the catalog says about the whole library, and how settings are written in it."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from mocosearch_index.records import EncoderIdentity, IndexSettings, SearchSettings


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """The row of the table `library`: see its columns in the schema."""

    identity: bytes
    root: bytes | None
    encoder: EncoderIdentity
    generation: int
    row_count: int
    change: int
    settings: IndexSettings


def settings_to_json(settings: IndexSettings) -> str:
    """Return the text that `settings_from_json` reads."""
    walk = {"include": settings.include, "exclude": settings.exclude}
    return json.dumps({"search": asdict(settings.search), "walk": walk})


def settings_from_json(text: str) -> IndexSettings:
    """Return the settings in `text`; what it does not name is as it was before there was a choice."""
    data = json.loads(text)
    walk = {name: tuple(patterns) for name, patterns in data["walk"].items()}
    return IndexSettings(SearchSettings(**{"whiten": False} | data["search"]), **walk)


def root_to_store(folder: Path, root: Path) -> bytes | None:
    """Return what `library.root` holds: nothing when `folder` lies in `root`, so that both can move."""
    if folder.resolve().parent == root.resolve():
        return None
    return os.fsencode(root.resolve())


def root_from_stored(folder: Path, stored: bytes | None) -> Path:
    """Return the library root of the index in `folder`."""
    return folder.absolute().parent if stored is None else Path(os.fsdecode(stored))
