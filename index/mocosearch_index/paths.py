"""Paths are bytes: a file name may be anything but NUL and `/`. This module shows them without harm."""

import os
from pathlib import Path

_SHORT = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(path: bytes) -> str:
    """Return `path` as one line that is safe on a terminal; never raises, and different paths look different.

    Undecodable bytes become `\\xNN`; control, bidirectional and other unprintable characters become `\\n`,
    `\\xNN`, `\\uNNNN` or `\\UNNNNNNNN`; a backslash is doubled.
    """
    text = path.decode("utf-8", "surrogateescape")
    return text if text.isprintable() and "\\" not in text else "".join(map(_escaped, text))


def shown(path: Path) -> str:
    """Return `path` in quotes, as messages name it; safe on a terminal."""
    return f"'{printable(os.fsencode(path))}'"


def is_reachable(path: Path) -> bool:
    """Whether there is something at `path`; not so where a folder is closed, or the name too long or none at all."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises where a name is too long


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as surrogateescape keeps it
        return f"\\x{code - 0xDC00:02x}"
    # C1 controls are spelled \uNNNN: \x80 to \xff always mean raw bytes, so that no two paths look the same.
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
