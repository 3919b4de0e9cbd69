"""Files as a folder of photos may hold them, and what must come of each: a picture of a size and look, or a reason."""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageChops, ImageCms

from tests.images.pictures import (
    HEIC,
    HEIC_TURNED,
    PNG_SIGNATURE,
    RED,
    SRGB,
    VALID,
    bomb,
    cut_and_closed,
    file_of,
    interlaced_png,
    is_near,
    looks_like_the_picture,
    noise,
    picture,
    png_of,
    with_chunk,
    with_orientation,
)

Look = Callable[[Image.Image], bool]
_WHITE = (255, 255, 255)
_TEXT_BOMB = b"note\0\0" + zlib.compress(bytes(50 << 20))


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture comes of the file."""

    size: tuple[int, int] = (64, 32)  # of the upright original, width first
    look: Look = looks_like_the_picture


@dataclass(frozen=True, slots=True)
class OddFile:
    """A file; `outcome`: what it shows, or the reasons of which one must be given."""

    data: bytes
    outcome: "Outcome"
    name: bytes


def _plain(color: tuple[int, int, int], tolerance: int = 3) -> Look:
    return lambda image: all(
        is_near(image, at, color, tolerance) for at in ((0, 0), (image.width - 1, image.height - 1))
    )


def _lies_on_its_side(image: Image.Image) -> bool:
    return looks_like_the_picture(image.transpose(Image.Transpose.ROTATE_90))


def _deep(value: float, kind: str) -> Image.Image:
    return Image.fromarray(np.full((32, 64), value, kind))


def _lab() -> Image.Image:
    profiles = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    converted = ImageCms.applyTransform(picture(), ImageCms.buildTransform(*profiles, "RGB", "LAB"))
    assert converted is not None
    return converted


def _white_on_the_left_red_on_the_right(image: Image.Image) -> bool:
    middle = image.height // 2
    return is_near(image, (0, middle), _WHITE, 12) and is_near(image, (image.width - 1, middle), RED, 40)


def _see_through() -> Image.Image:
    """Transparent black and, on the right, opaque red."""
    image = Image.new("RGBA", (64, 32), (0, 0, 0, 0))
    image.paste((*RED, 255), (32, 0, 64, 32))
    return image


def _animation(format_: str) -> bytes:
    frames = [Image.new("RGB", (64, 32), "black"), Image.new("RGB", (64, 32), "white")]
    return file_of(picture(), format_, save_all=True, append_images=frames)


def _ycck() -> bytes:
    """The picture as YCbCr and black, told by the Adobe marker; such files hold all values inverted."""
    inverted = ImageChops.invert(ImageChops.invert(picture()).convert("YCbCr"))
    ycck = Image.merge("CMYK", (*inverted.split(), Image.new("L", inverted.size)))
    data = file_of(ycck, "JPEG", quality=95)
    at = data.index(b"Adobe") + 11
    return data[:at] + b"\x02" + data[at + 1 :]


def _tiff_of(width: int, height: int) -> bytes:
    """One that lacks its pixels."""
    facts = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: width}
    entries = (struct.pack("<2H2I", tag, 4, 1, value) for tag, value in facts.items())
    return b"II*\0" + struct.pack("<IH", 8, len(facts)) + b"".join(entries) + bytes(4)


def _bmp_of(width: int, height: int) -> bytes:
    """One that lacks its pixels."""
    return b"BM" + struct.pack("<3I", 54, 0, 54) + struct.pack("<I2i2H6I", 40, width, height, 1, 24, *[0] * 6)


JPEG = {
    "baseline": VALID["jpeg"],
    "progressive": VALID["jpeg progressive"],
    "cmyk": VALID["jpeg cmyk"],
    "ycck": _ycck(),
    "without subsampling": file_of(picture(), "JPEG", quality=95, subsampling=0),
    "with restart markers": file_of(picture(), "JPEG", quality=95, restart_marker_rows=1),
    "stored as RGB": file_of(picture(), "JPEG", quality=95, keep_rgb=True),
    "with profile": file_of(picture(), "JPEG", quality=95, icc_profile=SRGB.tobytes()),
    "with broken profile": file_of(picture(), "JPEG", quality=95, icc_profile=b"none"),
    "with broken exif": VALID["jpeg with broken exif"],
    "with a film behind it": VALID["jpeg"] + b"\0\0\0\x18ftypmp42" + bytes(range(256)) * 20,
    "with a second picture": file_of(
        picture(), "MPO", save_all=True, append_images=[Image.new("RGB", (64, 32))], quality=95
    ),
}
PNG = {
    "plain": VALID["png"],
    "palette": VALID["png palette"],
    "palette of 2 bits": file_of(picture().quantize(4), "PNG", bits=2),
    "opaque alpha": VALID["png alpha"],
    "interlaced": interlaced_png(picture()),
    "with profile": VALID["png with profile"],
    "with a text that unpacks to 50 MB": with_chunk(VALID["png"], b"zTXt", _TEXT_BOMB),
    "with bytes behind its end": VALID["png"] + b"more",
    "animated": _animation("PNG"),
}
TIFF = {
    **{name: VALID[name] for name in ("tiff", "tiff lzw", "tiff deflate", "tiff jpeg", "tiff cmyk")},
    "tiff packbits": file_of(picture(), "TIFF", compression="packbits"),
    "tiff with a predictor": file_of(picture(), "TIFF", compression="tiff_lzw", tiffinfo={317: 2}),
    "tiff with offsets of 64 bits": file_of(picture(), "TIFF", big_tiff=True),
    "tiff palette": file_of(picture().quantize(8), "TIFF"),
    "tiff alpha": file_of(picture().convert("RGBA"), "TIFF"),
    "tiff lab": file_of(_lab(), "TIFF"),
    "tiff of several pages": _animation("TIFF"),
}
OTHERS = {
    "webp": VALID["webp"],
    "webp lossless": VALID["webp lossless"],
    "webp animated": _animation("WEBP"),
    "gif": VALID["gif"],
    "gif not interlaced": file_of(picture(), "GIF", interlace=0),
    "gif animated": _animation("GIF"),
    "bmp": VALID["bmp"],
    "bmp palette": file_of(picture().quantize(8), "BMP"),
    "bmp alpha": file_of(picture().convert("RGBA"), "BMP"),
    "avif": VALID["avif"],
    "avif animated": _animation("AVIF"),
    "jpeg 2000": VALID["jpeg 2000"],
    "jpeg 2000 without container": file_of(picture(), "JPEG2000", no_jp2=True),
    "ppm": VALID["ppm"],
    "heic": HEIC,
}
GRAY = {
    "jpeg gray": file_of(Image.new("L", (64, 32), 128), "JPEG"),
    "png gray": file_of(Image.new("L", (64, 32), 128), "PNG"),
    "png gray of 16 bits": file_of(_deep(128 * 257, "uint16"), "PNG"),
    "png gray with alpha": file_of(Image.new("LA", (64, 32), (128, 255)), "PNG"),
    "png half transparent black": file_of(Image.new("RGBA", (64, 32), (0, 0, 0, 127)), "PNG"),
    "png of 16 bits a color": png_of(64, 32, 16, 2, (b"\0" + bytes((128,)) * 6 * 64) * 32),
    "tiff of 16 bits": file_of(_deep(128 * 257, "uint16"), "TIFF"),
    "tiff of 16 bits, big end first": file_of(
        Image.frombytes("I;16B", (64, 32), _deep(128 * 257, ">u2").tobytes()), "TIFF"
    ),
    "tiff of 12 bits in 16": file_of(_deep(128 * 16, "uint16"), "TIFF"),
    "tiff of 32 bits": file_of(_deep(128, "int32"), "TIFF"),
    "tiff of floats": file_of(_deep(0.5, "float32"), "TIFF"),
    "avif gray": file_of(Image.new("L", (64, 32), 128), "AVIF"),
    "jpeg 2000 of 16 bits": file_of(_deep(128 * 257, "uint16"), "JPEG2000"),
    "pgm": file_of(Image.new("L", (64, 32), 128), "PPM"),
    "pgm as text": b"P2 64 32 4095\n" + b"2048 " * (64 * 32),
}
WHITE = {
    "png of 1 bit": file_of(Image.new("1", (64, 32), 1), "PNG"),
    "tiff fax": file_of(Image.new("1", (64, 32), 1), "TIFF", compression="group4"),
    "bmp of 1 bit": file_of(Image.new("1", (64, 32), 1), "BMP"),
    "pbm": file_of(Image.new("1", (64, 32), 1), "PPM"),
    "png all transparent": file_of(Image.new("RGBA", (64, 32), (0, 0, 0, 0)), "PNG"),
}
TRANSPARENT = {
    "png": file_of(_see_through(), "PNG"),
    "png palette": file_of(_see_through().quantize(4), "PNG"),
    "png color key": file_of(_see_through().convert("RGB"), "PNG", transparency=(0, 0, 0)),
    "webp": file_of(_see_through(), "WEBP", lossless=True),
    "gif": file_of(_see_through(), "GIF"),
    "avif": file_of(_see_through(), "AVIF", quality=95),
    "tiff": file_of(_see_through(), "TIFF"),
    "jpeg 2000": file_of(_see_through(), "JPEG2000"),
}
NO_PICTURES = {
    "nothing": (b"", "empty"),
    "one byte": (b"\xff", "not-an-image"),
    "zero bytes": (bytes(5000), "not-an-image"),
    "text": (b"Dear diary, this is a text file called .jpg", "not-an-image"),
    "a web page": (b"<!DOCTYPE html><title>Photo not found</title>", "not-an-image"),
    "a drawing": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not-an-image"),
    "a film": (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "not-an-image"),
    "a document": (b"%PDF-1.7", "not-an-image"),
    "an archive": (b"PK\3\4" + bytes(100), "not-an-image"),
    "a format nobody decodes": (file_of(picture(), "QOI"), "not-an-image"),
    "the head of a jpeg": (b"\xff\xd8\xff\xe0 no more", "truncated"),
    "the signature of a png": (PNG_SIGNATURE, "truncated"),
    "the head of a webp": (VALID["webp"][:20], "truncated"),
    "png without data": (VALID["png"].replace(b"IDAT", b"IDOT"), "damaged"),
    "heic with a type that is no text": (HEIC_TURNED.replace(b"Exif", b"\xffxif", 1), "damaged"),
    "png bomb": (bomb(100_000, 100_000), "too-large"),
    "png a little too large": (bomb(15_812, 15_812), "too-large"),
    "png of 200 megapixels that lacks its data": (bomb(16_320, 12_240), "truncated"),
    "tiff bomb": (_tiff_of(90_000, 90_000), "too-large"),
    "bmp bomb": (_bmp_of(90_000, 90_000), "too-large"),
    "gif bomb": (b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\2\2\x4c\1\0;", "too-large"),
    "ppm bomb": (b"P6 90000 90000 255\n" + bytes(100), "too-large"),
    **{
        f"jpeg cut and closed at {tenths}0%": (cut_and_closed(file_of(noise(), "JPEG"), tenths / 10), "truncated")
        for tenths in (5, 7, 9)
    },
}
SIZES = [
    *((format_, 1, 1) for format_ in ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP", "AVIF")),
    *(("PNG", 1, 30_000), ("PNG", 30_000, 1), ("JPEG", 1, 30_000), ("JPEG", 30_000, 1)),
]
NAMES = {
    "no utf-8": b"caf\xe9 \xff.jpg",
    "a newline": b"two\nlines.jpg",
    "control characters": b"\x1b[31mred\t\x07.jpg",
    "an emoji": "\N{SMILING CAT FACE WITH HEART-SHAPED EYES} 家族.jpg".encode(),
    "255 bytes": b"n" * 251 + b".jpg",
    "a dash first": b"-rf.jpg",
    "quotes and spaces": b' it\'s "one" \\ photo .jpg',
    "right to left": "\u202egpj.exe".encode(),
    "two dots": b"..jpg",
    "the wrong extension": b"photo.docx",
    "no extension": b"photo",
}


Outcome = Shown | frozenset[str]


def _files(files: dict[str, tuple[bytes, Outcome]]) -> dict[str, OddFile]:
    """Under names that say nothing: what a file is, its content says."""
    return {kind: OddFile(*file, b"%s.jpg" % kind.encode().hex().encode()[:200]) for kind, file in files.items()}


def _shown(group: str, files: dict[str, bytes], outcome: Shown) -> dict[str, OddFile]:
    return _files({f"{group} {kind}".strip(): (data, outcome) for kind, data in files.items()})


def _orientation(orientation: int) -> bytes:
    return with_orientation(picture(), orientation, "JPEG", quality=95)


def _cut(kind: str, data: bytes) -> dict[str, OddFile]:
    """Cut off at 10 places."""
    truncated = frozenset(("truncated",))
    return _files(
        {f"{kind} cut at {percent}%": (data[: len(data) * percent // 100], truncated) for percent in range(5, 100, 10)}
    )


ODD_FILES: dict[str, OddFile] = {
    **_shown("jpeg", JPEG, Shown()),
    **_shown("jpeg of orientation", {str(turn): _orientation(turn) for turn in range(1, 9)}, Shown()),
    **_shown("jpeg of impossible orientation", {str(turn): _orientation(turn) for turn in (0, 9)}, Shown()),
    **_shown("png", PNG, Shown()),
    **_shown("", TIFF, Shown()),
    **_shown("", OTHERS, Shown()),
    **_shown("", {"heic turned": HEIC_TURNED}, Shown((32, 64), _lies_on_its_side)),
    **_shown("", GRAY, Shown(look=_plain((128, 128, 128)))),
    **_shown("", WHITE, Shown(look=_plain(_WHITE, 0))),
    **_shown("transparent", TRANSPARENT, Shown(look=_white_on_the_left_red_on_the_right)),
    **_files({kind: (data, frozenset((reason,))) for kind, (data, reason) in NO_PICTURES.items()}),
    **_cut("jpeg", file_of(noise(), "JPEG")),
    **_cut("jpeg progressive", file_of(noise(), "JPEG", progressive=True)),
    **_cut("png", file_of(noise(), "PNG")),
    **_cut("webp", file_of(noise(), "WEBP")),
    **_cut("tiff", file_of(noise(), "TIFF")),
    **_files(
        {
            f"{format_} of {width} x {height}": (
                file_of(Image.new("RGB", (width, height), RED), format_),
                Shown((width, height), _plain(RED, 12)),
            )
            for format_, width, height in SIZES
        }
    ),
    **{f"named with {kind}": OddFile(VALID["jpeg"], Shown(), name) for kind, name in NAMES.items()},
}
