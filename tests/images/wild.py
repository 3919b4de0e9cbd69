"""A geometry with which a photo of one color does to its process what a broken decoder in C does."""

import ctypes
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from mocosearch.images.geometry import Geometry

TAME, SEGFAULT, ABORT, HANG, HANG_ALONE, DIE_ONCE = "white", "red", "yellow", "blue", "green", "black"
_RGB: dict[str, Any] = {
    color: Image.new("RGB", (1, 1), color).getpixel((0, 0)) for color in (SEGFAULT, ABORT, HANG, HANG_ALONE, DIE_ONCE)
}


@dataclass(frozen=True)
class Wild(Geometry):
    """Heeds the corner of the picture. `witness`: a file that is there once a photo hangs or DIE_ONCE was heeded."""

    witness: Path = Path("/dev/null")

    def cut(self, image: Image.Image) -> Any:
        color = image.getpixel((0, 0))
        if color == _RGB[SEGFAULT]:
            ctypes.string_at(0)
        if color == _RGB[ABORT]:
            os.abort()
        if color == _RGB[HANG]:
            self.witness.touch()
            ctypes.PyDLL(None).pause()  # keeps the interpreter's lock: no Python code runs any more
        if color == _RGB[HANG_ALONE]:
            self.witness.touch()
            time.sleep(3600)
        if color == _RGB[DIE_ONCE] and not self.witness.exists():
            self.witness.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().cut(image)


def write_photo(path: Path, color: str) -> Path:
    Image.new("RGB", (48, 40), color).save(path)
    return path
