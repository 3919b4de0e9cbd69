"""Turn a file into an upright RGB picture, whatever the file is, or say in one word why it cannot be done.

A folder of photos holds everything: files cut off by a full card, bombs, text called .jpg. What a file
is, its content says, not its name. Embedding, thumbnails and queries all decode here, so that they see the
same picture.
"""

import os
import re
import stat
import struct
import threading
import warnings
import zlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path

import PIL
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
    features,
)

from mocosearch.images.jpeg import Jpeg
from mocosearch.images.to_rgb import to_rgb
from mocosearch_index.errors import MocosearchError

try:
    import pi_heif
except ImportError:  # a platform without the binary package
    pi_heif = None
else:
    pi_heif.register_heif_opener()

MAX_PIXELS = 250_000_000  # a phone takes 200 million; a bomb claims billions
MAX_BYTES = 1 << 30  # as many pixels fit in, uncompressed
TIME_CAP = 60.0  # seconds for a photo, reading and decoding
# Of files, and of what `verify` found damaged in the index.
ALWAYS_RETRY = frozenset(("io", "permission", "memory", "vector-damaged", "catalog-damaged"))

# The order matters where two formats claim the same first bytes (HEIF and AVIF).
_FORMATS = tuple(
    plugin.format
    for plugin in (
        JpegImagePlugin.JpegImageFile,
        PngImagePlugin.PngImageFile,
        WebPImagePlugin.WebPImageFile,
        TiffImagePlugin.TiffImageFile,
        GifImagePlugin.GifImageFile,
        BmpImagePlugin.BmpImageFile,
        AvifImagePlugin.AvifImageFile,
        Jpeg2KImagePlugin.Jpeg2KImageFile,
        PpmImagePlugin.PpmImageFile,
    )
) + (("HEIF",) if pi_heif else ())
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")

# Decoders are handed hostile bytes: any of these has come out of one. Not KeyboardInterrupt, not SystemExit.
_FAILURES = (
    *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, ImportError, LookupError),
    *(MemoryError, OSError, RuntimeError, SyntaxError, TypeError, ValueError, struct.error, zlib.error),
    Image.DecompressionBombError,
)
_GIANT_PIXELS = 50_000_000
_one_giant_at_a_time = threading.Lock()  # decoding threads share the memory

# Pillow's cap is one number for the whole process: without this it refuses a TIFF that ours lets pass.
Image.MAX_IMAGE_PIXELS = MAX_PIXELS
warnings.filterwarnings("ignore", module=r"PIL\.")  # about damaged metadata, a line for every such file

ADVICE = {
    "not-an-image": "it is no image of a known format; give a JPEG, PNG, WebP, TIFF, GIF, BMP, AVIF or HEIC",
    "truncated": "it is cut off; copy it again from where it came from",
    "too-large": f"it is over {MAX_PIXELS // 1_000_000} million pixels or {MAX_BYTES >> 30} GiB; make a smaller copy",
    "empty": "it holds no bytes; copy it again from where it came from",
    "missing-codec": "its codec is missing here; `mocosearch doctor` names what to install",
    "permission": "you may not read it; change its permissions",
    "io": "reading it failed; check the disk and that the file still exists",
    "memory": "there is too little memory to decode it; close other programs",
    "timeout": "it takes too long to decode; give `index` a longer --time-cap, or save it again in another program",
    "crashed": "it makes its decoder crash; open and save it again in another program",
    "damaged": "it is damaged; open and save it again in another program",
}


class Undecodable(MocosearchError):
    """A file gives no picture. `reason`: a slug of `ADVICE`; `detail`: the decoder's words, one line."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = "".join(c if c.isprintable() else " " for c in detail)[:200]

    def __str__(self) -> str:
        return f"The picture cannot be used: {ADVICE[self.reason]} ({self.detail})"


@dataclass(frozen=True, slots=True)
class DecodedImage:
    """A picture ready to look at, and what the file says of the original."""

    image: Image.Image  # RGB, upright, possibly reduced
    width: int  # pixels of the original, upright
    height: int
    taken_at: str | None  # "YYYY-MM-DDTHH:MM:SS", the camera's local time


def decode(
    source: Path | bytes,
    *,
    short_side: int | None = None,
    giants: AbstractContextManager[object] = _one_giant_at_a_time,
) -> DecodedImage:
    """Decode a file, or the bytes of one, upright, over white, in sRGB; of an animation the first frame.

    A picture whose short side is longer than `short_side` is reduced to it (antialiased; a JPEG while it is
    decoded); none is ever enlarged. `giants` is entered while a picture of very many pixels is
    decoded, so that memory holds. Raises Undecodable and nothing else.
    """
    data = read_file(source) if isinstance(source, Path) else source
    if not data:
        raise Undecodable("empty", "0 bytes")
    try:
        try:
            return _decode(data, short_side, giants)
        except ValueError:  # Pillow gives up a PNG for a text or a profile that unpacks beyond its limit
            if not data.startswith(_PNG_SIGNATURE):
                raise
            return _decode(_without_text(data), short_side, giants)
    except _FAILURES as error:
        failure = Undecodable(_reason(error, data), f"{type(error).__name__}: {error}")
    raise failure  # out here it keeps no hold of the frames, and so of the memory, of what failed


def read_file(path: Path) -> bytes:
    """The bytes of a regular file of at most MAX_BYTES; Undecodable otherwise."""
    try:
        # Not blocking: a pipe would wait forever for its writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Undecodable("not-an-image", "not a regular file")
            if status.st_size > MAX_BYTES:
                raise Undecodable("too-large", f"{status.st_size} bytes")
            return file.read()
    except OSError as error:
        reasons = {IsADirectoryError: "not-an-image", PermissionError: "permission"}
        failure = Undecodable(reasons.get(type(error), "io"), error.strerror or "unknown error")
    raise failure


def decoder_capabilities() -> str:
    """The decoders at hand and what they may read, in one line: when it changes, what was skipped is worth a retry."""
    codecs = [f"{name} {features.version(name)}" for name in ("jpg", "webp", "avif", "jpg_2000", "libtiff")]
    heif = f"pi_heif {pi_heif.__version__}" if pi_heif else "no pi_heif"
    return ", ".join((f"pillow {PIL.__version__}", *codecs, heif, f"at most {MAX_PIXELS} pixels"))


def _decode(data: bytes, short_side: int | None, giants: AbstractContextManager[object]) -> DecodedImage:
    image = _open(data)
    width, height = image.size
    jpeg = Jpeg(image, data, short_side) if isinstance(image, JpegImagePlugin.JpegImageFile) else None
    pixels = width * height if jpeg is None or jpeg.is_decoded_whole else image.size[0] * image.size[1]
    if pixels > MAX_PIXELS:
        raise Undecodable("too-large", f"{width} x {height} pixels")
    with giants if pixels > _GIANT_PIXELS else nullcontext():
        image.load()
        if jpeg and jpeg.ends_early():
            raise Undecodable("truncated", "its data end before the picture does")
        orientation, taken_at = _exif_facts(image)
        upright = to_rgb(image, short_side, orientation)
    if orientation >= 5:
        width, height = height, width
    return DecodedImage(upright, width, height, taken_at)


def _open(data: bytes) -> ImageFile.ImageFile:
    """Read the header only. Not by Image.open: its own pixel cap comes before a JPEG is scaled."""
    prefix = data[:16]
    for name in _FORMATS:
        factory, accept = Image.OPEN[name]
        accepted = accept(prefix) if accept else False
        if isinstance(accepted, str):  # the format is known, its library was left out of this Pillow
            raise Undecodable("missing-codec", accepted)
        if accepted:
            if name == "HEIF":
                _check_item_names(data)
            return factory(BytesIO(data), "")
    if pi_heif is None and prefix[4:8] == b"ftyp" and prefix[8:12] in _HEIF_BRANDS:
        raise Undecodable("missing-codec", "HEIC needs the package pi-heif")
    raise Undecodable("not-an-image", f"the first bytes are {prefix[:8].hex(' ')}")


def _check_item_names(heif: bytes) -> None:
    """Raise ValueError where pi_heif (1.4) would crash: on an item whose type or name is not UTF-8."""
    for found in re.finditer(rb"infe[\2\3]", heif):
        box_end = found.start() - 4 + int.from_bytes(heif[found.start() - 4 : found.start()], "big")
        item_type = found.end() + (7 if heif[found.end() - 1] == 2 else 9)
        heif[item_type:box_end].decode("utf-8")


def _exif_facts(image: ImageFile.ImageFile) -> tuple[int, str | None]:
    """EXIF orientation (1 to 8) and the moment the photo was taken; damaged EXIF counts as none."""
    orientation, taken_at = 1, None
    try:
        exif = image.getexif()
        if exif.get(0x0112) in range(1, 9):
            orientation = int(exif[0x0112])
        details = exif.get_ifd(0x8769)
        moments = (details.get(0x9003), details.get(0x9004), exif.get(0x0132))  # original, digitized, changed
        taken_at = next(filter(None, map(_moment, moments)), None)
    except _FAILURES:
        pass
    return orientation, taken_at


def _moment(text: object) -> str | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.strptime(text[:19], "%Y:%m:%d %H:%M:%S").isoformat()
    except ValueError:  # cameras without a clock write 0000:00:00
        return None


def _reason(error: BaseException, data: bytes) -> str:
    words = str(error).lower()
    if data[:4] == b"RIFF" and int.from_bytes(data[4:8], "little") > len(data) - 8:
        return "truncated"  # WebP's decoder does not say so
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, Image.DecompressionBombError) or "limit" in words:
        return "too-large"
    if isinstance(error, ImportError) or "not available" in words:
        return "missing-codec"
    if isinstance(error, EOFError) or re.search(r"truncat|end of (file|input)|premature|requires a buffer", words):
        return "truncated"
    return "damaged"


_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def _without_text(png: bytes) -> bytes:
    """The PNG without its texts and color profile, which no picture needs."""
    kept, at = [_PNG_SIGNATURE], len(_PNG_SIGNATURE)
    while at + 8 <= len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        end = at + 12 + length
        if kind not in (b"tEXt", b"zTXt", b"iTXt", b"iCCP"):
            kept.append(png[at:end])
        at = end
    return b"".join(kept)
