"""Pictures that tell what was done to them, and files of them in every format."""

import base64
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

from mocosearch.images.decode import Undecodable, decode

RED, BLUE = (220, 40, 30), (20, 60, 200)
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Made with pillow-heif 1.8 from `picture()`: nothing installed here can write HEIC. The second carries a
# rotation (irot), as phones write it.
HEIC = base64.b64decode(
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAX1tZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAA"
    "ACJpbG9jAAAAAERAAAEAAQAAAAABoQABAAAAAAAAADAAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRt"
    "AAAAAAABAAAA/WlwcnAAAADdaXBjbwAAAHZodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMA"
    "AAMAHroCQGEAAQAqQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbq5Ka5uAhoMCAAAAMDIAAAAwAhYgABAAZEAcFzwIkAAAATY29scm5j"
    "bHgAAQANAAaAAAAAFGlzcGUAAAAAAAAAQAAAAEAAAAAoY2xhcAAAAEAAAAABAAAAIAAAAAEAAAAAAAAAAv///+AAAAACAAAAEHBp"
    "eGkAAAAAAwgICAAAABhpcG1hAAAAAAAAAAEAAQWBAgMFhAAAADhtZGF0AAAALCgBrxmA94SFN//VjP975f46Cyt/+G1171rf6414"
    "KbL/Xggdbzv6Cb5kQTET"
)
HEIC_TURNED = base64.b64decode(
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAchtZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAA"
    "ADRpbG9jAAAAAERAAAIAAQAAAAAB7AABAAAAAAAAADAAAgAAAAACHAABAAAAAAAAACQAAAA4aWluZgAAAAAAAgAAABVpbmZlAgAA"
    "AAABAABodmMxAAAAABVpbmZlAgAAAQACAABFeGlmAAAAAA5waXRtAAAAAAABAAABB2lwcnAAAADmaXBjbwAAAHZodmNDAQNwAAAA"
    "kAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQAqQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbq"
    "5Ka5uAhoMCAAAAMDIAAAAwAhYgABAAZEAcFzwIkAAAATY29scm5jbHgAAQANAAaAAAAAFGlzcGUAAAAAAAAAQAAAAEAAAAAoY2xh"
    "cAAAAEAAAAABAAAAIAAAAAEAAAAAAAAAAv///+AAAAACAAAAEHBpeGkAAAAAAwgICAAAAAlpcm90AwAAABlpcG1hAAAAAAAAAAEA"
    "AQaBAgMFhIYAAAAaaXJlZgAAAAAAAAAOY2RzYwACAAEAAQAAAFxtZGF0AAAALCgBrxmA94SFN//VjP975f46Cyt/+G1171rf6414"
    "KbL/Xggdbzv6Cb5kQTETAAAABkV4aWYAAE1NACoAAAAIAAEBEgADAAAAAQAGAAAAAAAA"
)


def picture(width: int = 64, height: int = 32) -> Image.Image:
    """Blue, the top left quarter red: every orientation of it looks different."""
    image = Image.new("RGB", (width, height), BLUE)
    image.paste(RED, (0, 0, width // 2, height // 2))
    return image


def noise(width: int = 80, height: int = 60) -> Image.Image:
    """A picture whose files have some ten kilobytes, of which every byte matters."""
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def looks_like_the_picture(image: Image.Image, tolerance: int = 40) -> bool:
    width, height = image.size
    points = {(1, 1): RED, (3, 1): BLUE, (1, 3): BLUE, (3, 3): BLUE}
    return image.mode == "RGB" and all(
        is_near(image, (x * width // 4, y * height // 4), color, tolerance) for (x, y), color in points.items()
    )


def is_near(image: Image.Image, at: tuple[int, int], color: tuple[int, ...], tolerance: int = 3) -> bool:
    pixel: Any = image.getpixel(at)
    return bool(np.abs(np.subtract(pixel, color)).max() <= tolerance)


def file_of(image: Image.Image, format_: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_, **options)
    return buffer.getvalue()


def with_orientation(image: Image.Image, orientation: int, format_: str, **options: Any) -> bytes:
    """A file that shows the image when it is turned as its EXIF says."""
    back: dict[int, Image.Transpose] = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = image.transpose(back[orientation]) if orientation in back else image
    exif = Image.Exif()
    exif[0x0112] = orientation
    return file_of(stored, format_, exif=exif, **options)


def png_of(width: int, height: int, depth: int, color: int, scanlines: bytes, *, interlaced: bool = False) -> bytes:
    """A PNG put together by hand; `color`: 0 gray, 2 RGB."""
    header = struct.pack(">2I5B", width, height, depth, color, 0, 0, interlaced)
    return PNG_SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(scanlines)) + _chunk(b"IEND", b"")


def interlaced_png(image: Image.Image) -> bytes:
    """In the seven passes of PNG."""
    pixels = np.asarray(image)
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    parts = (_scanlines(pixels[y::down, x::right]) for x, y, right, down in passes)
    return png_of(image.width, image.height, 8, 2, b"".join(parts), interlaced=True)


def _scanlines(pixels: NDArray[np.uint8]) -> bytes:
    return b"".join(b"\0" + row.tobytes() for row in pixels)


def with_chunk(png: bytes, kind: bytes, body: bytes) -> bytes:
    at = png.index(b"IDAT") - 4
    return png[:at] + _chunk(kind, body) + png[at:]


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def bomb(width: int, height: int) -> bytes:
    """A small PNG that claims to be huge."""
    return png_of(width, height, 8, 2, bytes(1000))


def cut_and_closed(jpeg: bytes, share: float) -> bytes:
    """The first part of a JPEG with an end marker put behind it."""
    return jpeg[: int(len(jpeg) * share)] + b"\xff\xd9"


def failure(source: Path | bytes, **options: Any) -> Undecodable:
    with pytest.raises(Undecodable) as caught:
        decode(source, **options)
    return caught.value


VALID: dict[str, bytes] = {
    "jpeg": file_of(picture(), "JPEG", quality=95),
    "jpeg progressive": file_of(picture(), "JPEG", quality=95, progressive=True),
    "jpeg cmyk": file_of(picture().convert("CMYK"), "JPEG", quality=95),
    "jpeg with broken exif": file_of(picture(), "JPEG", quality=95, exif=b"Exif\0\0MM\0*\0\0\xff\xff junk"),
    "png": file_of(picture(), "PNG"),
    "png with profile": file_of(picture(), "PNG", icc_profile=SRGB.tobytes()),
    "png palette": file_of(picture().quantize(8), "PNG"),
    "png alpha": file_of(picture().convert("RGBA"), "PNG"),
    "webp": file_of(picture(), "WEBP", quality=95),
    "webp lossless": file_of(picture(), "WEBP", lossless=True),
    "tiff": file_of(picture(), "TIFF"),
    "tiff lzw": file_of(picture(), "TIFF", compression="tiff_lzw"),
    "tiff deflate": file_of(picture(), "TIFF", compression="tiff_adobe_deflate"),
    "tiff jpeg": file_of(picture(), "TIFF", compression="jpeg"),
    "tiff cmyk": file_of(picture().convert("CMYK"), "TIFF"),
    "gif": file_of(picture(), "GIF"),
    "bmp": file_of(picture(), "BMP"),
    "avif": file_of(picture(), "AVIF", quality=90),
    "jpeg 2000": file_of(picture(), "JPEG2000"),
    "ppm": file_of(picture(), "PPM"),
    "heic": HEIC,
}
