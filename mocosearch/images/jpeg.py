"""What Pillow does not tell of a JPEG: whether scaling it down saves memory, and whether its data end early."""

import re
from io import BytesIO

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

_MARKER = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])")  # not a zero that was stuffed in, a restart or padding
_START_OF_SCAN, _END_OF_IMAGE = b"\xda", b"\xd9"
_SHADES_OF_NOTHING = (127, 128)  # what libjpeg shows where no data came, in gray, RGB and CMYK
_NOISE = bytes(range(1, 255)) * 16
_MORE_DATA = _NOISE + b"".join(bytes((0xFF, restart)) + _NOISE for restart in range(0xD0, 0xD8))
_ROWS = 256


class Jpeg:
    """A JPEG whose header has been read, before and after its pixels are loaded."""

    def __init__(self, image: JpegImageFile, data: bytes, short_side: int | None) -> None:
        """Have the image decoded at a reduced size, a power of two, where `short_side` is much less than its own."""
        assert image.fp is not None
        self._image = image
        self._data = data
        self._short_side = short_side
        self._scan = image.fp.tell()  # where the data of the first scan begin
        self._reduce(image)

    @property
    def is_decoded_whole(self) -> bool:
        """Whether libjpeg holds the whole JPEG in memory, at full size, however far it is scaled down.

        So it is unless the first scan holds all the components.
        """
        layers = self._image.layers
        # marker, length, number of components, two bytes each, 3
        header = self._data[self._scan - 8 - 2 * layers : self._scan]
        return "progressive" in self._image.info or header[:2] != b"\xff" + _START_OF_SCAN or header[4] != layers

    def ends_early(self) -> bool:
        """Tell, of a loaded picture, whether its data end before it does, at an end marker that was put there.

        libjpeg shows gray for the rest. If the last pixel is of that gray, it is decoded again with more data before
        the marker: they are passed over unless there was a want of them. A progressive one whose later scans are cut
        off counts as whole: it is only less sharp.
        """
        last = self._image.getpixel((self._image.width - 1, self._image.height - 1))
        shades = last if isinstance(last, tuple) else (last,)
        if not all(shade in _SHADES_OF_NOTHING for shade in shades):
            return False
        end = self._end_marker()
        again = JpegImageFile(BytesIO(self._data[:end] + _MORE_DATA + self._data[end:]), "")
        self._reduce(again)
        return _differ(self._image, again)

    def _reduce(self, image: JpegImageFile) -> None:
        if self._short_side is not None:
            image.draft(None, (self._short_side, self._short_side))

    def _end_marker(self) -> int:
        at = self._scan
        while (marker := _MARKER.search(self._data, at)) and marker[1] != _END_OF_IMAGE:
            at = marker.end() + int.from_bytes(self._data[marker.end() : marker.end() + 2], "big")
        return marker.start() if marker else len(self._data)


def _differ(one: Image.Image, other: Image.Image) -> bool:
    """Compare pixels, some rows at a time: a giant's bytes are not copied as a whole."""
    strips = ((0, top, one.width, min(top + _ROWS, one.height)) for top in range(0, one.height, _ROWS))
    return any(one.crop(strip).tobytes() != other.crop(strip).tobytes() for strip in strips)
