"""Picture media types, and how to open them with Pillow, for previews and `to_pil`."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Final

from odps_nb.errors import MissingDependencyError

if TYPE_CHECKING:
    from PIL import Image

#: Pillow's format name for each media type.
PICTURES: Final = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
    "image/tiff": "TIFF",
    "image/avif": "AVIF",
    "image/heic": "HEIF",
    "image/vnd.microsoft.icon": "ICO",
    "image/jp2": "JPEG2000",
    "image/vnd.adobe.photoshop": "PSD",
    "image/x-portable-anymap": "PPM",
    "image/vnd-ms.dds": "DDS",
    "image/qoi": "QOI",
}
#: Keys of ``PIL.Image.Image.info`` to keep: EXIF data, and keys that affect how pictures look.
KEPT_INFO: Final = (
    *("exif", "icc_profile", "dpi", "gamma", "srgb", "chromaticity", "transparency"),
)
ORIENTATION: Final = 0x0112
"""EXIF tag of the orientation: 1 is upright."""
_BIG: Final = (b"+\0", b"\0+")  # magic numbers of BigTIFF
_PNG: Final = b"\x89PNG\r\n\x1a\n"


def register() -> None:
    """Register the HEIC format with Pillow if pillow-heif is installed."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependencyError(
            "pictures need Pillow", extra="notebook", hint="pip install pillow"
        ) from None
    if "HEIF" not in Image.OPEN:
        try:
            from pillow_heif import register_heif_opener
        except ImportError:
            return
        register_heif_opener()


def open_picture(data: bytes, *mimes: str) -> Image.Image:
    """Open a picture with one of the media types; read the header without decoding pixels."""
    register()
    from PIL import Image

    Image.init()
    known = [name for mime in mimes if (name := PICTURES[mime]) in Image.OPEN]
    if not known:
        needed = "pillow-heif" if mimes[0] == "image/heic" else "Pillow 11.3 or newer"
        raise MissingDependencyError(
            f"{mimes[0]} needs {needed}", extra="previews", hint="pip install 'odps-nb[previews]'"
        )
    return Image.open(io.BytesIO(data), formats=known)


def orientation(picture: Image.Image) -> int | None:
    """Return the orientation in the EXIF data, ``None`` if there is none or it is damaged."""
    try:
        return picture.getexif().get(ORIENTATION)
    except Exception:  # noqa: BLE001 - the pixels may still be fine
        return None


def check_signs(picture: Image.Image) -> None:
    """Raise `ValueError` for a TIFF with integers that Pillow decodes with the wrong sign."""
    tags = getattr(picture, "tag_v2", {})
    # mode, BitsPerSample, SampleFormat: 1 is unsigned (the default), 2 is signed
    form = picture.mode, tags.get(258, (1,))[0], tags.get(339, (1,))[0]
    low, high = picture.getextrema() if form in (("L", 8, 2), ("I", 32, 1)) else (0, 0)
    if low < 0 or (form[0] == "L" and high > 127):  # type: ignore[operator]
        sign = "signed" if form[0] == "L" else "unsigned"
        raise ValueError(f"Pillow does not decode {sign} values of {form[1]} bits")


def tiff_form(data: bytes) -> str:
    """Describe the pixel format in a TIFF's first directory; empty if unknown."""
    from PIL import TiffImagePlugin

    file = io.BytesIO(data)
    try:
        tags = TiffImagePlugin.ImageFileDirectory_v2(file.read(16 if data[2:4] in _BIG else 8))
        file.seek(tags.next)
        tags.load(file)
        if TiffImagePlugin.IMAGEWIDTH not in tags:
            return ""
        bands = int(tags.get(TiffImagePlugin.SAMPLESPERPIXEL, 1))
        bits = "/".join(sorted({str(bit) for bit in tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,))}))
        number = tags.get(TiffImagePlugin.COMPRESSION, 1)
        packed = TiffImagePlugin.COMPRESSION_INFO.get(number, f"compression {number}")
    except Exception:  # noqa: BLE001 - damaged directories may raise any exception
        return ""
    return (
        f"TIFF with {bands} {'band' if bands == 1 else 'bands'}, {bits} bits per sample, {packed}"
    )


def icon_size(data: bytes) -> tuple[int, int]:
    """Return the width and height of the largest picture inside an icon (ICO).

    The sizes are read from the pictures, because those in the icon directory are not reliable.
    """
    largest = 0, 0
    for entry in range(min(int.from_bytes(data[4:6], "little"), 256)):
        at = int.from_bytes(data[18 + 16 * entry : 22 + 16 * entry], "little")
        if data.startswith(_PNG, at):
            sides = (data[at + 16 : at + 20], data[at + 20 : at + 24])
            width, height = (int.from_bytes(side, "big") for side in sides)
        else:  # a bitmap's height includes its mask
            sides = (data[at + 4 : at + 8], data[at + 8 : at + 12])
            width, height = (abs(int.from_bytes(side, "little", signed=True)) for side in sides)
            height //= 2
        largest = max(largest, (width, height), key=math.prod)
    return largest
