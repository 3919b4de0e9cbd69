"""mocosearch: search an image collection by picture, with an encoder learned from that very collection.

docs/python.md tells how to use it from Python. What is named here is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mocosearch.encoders import Encoder, load_encoder
    from mocosearch.library import Library
    from mocosearch_index.image_index import ImageIndex
    from mocosearch_index.records import PhotoFilter

__version__ = "0.1.0"
__all__ = ["Encoder", "ImageIndex", "Library", "PhotoFilter", "load_encoder"]

_HOMES = {
    "Encoder": "mocosearch.encoders",
    "ImageIndex": "mocosearch_index.image_index",
    "Library": "mocosearch.library",
    "PhotoFilter": "mocosearch_index.records",
    "load_encoder": "mocosearch.encoders",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
