"""Raster images: re-encoded thumbnails.

Pillow may only use the format recognised from the first bytes. The size in pixels is checked before
decoding, because a PNG of 17 kB can contain 144 million pixels.
"""

from __future__ import annotations

import io
from typing import Any, Final

from odps_nb.convert.pictures import (
    PICTURES,
    check_signs,
    icon_size,
    open_picture,
    orientation,
    register,
    tiff_form,
)
from odps_nb.errors import MissingDependencyError
from odps_nb.formats.parsers.colours import as_srgb
from odps_nb.formats.parsers.depth import stretched
from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.lengths import ends_early
from odps_nb.parsing.reasons import DAMAGED, ENDS_EARLY, refusal_of
from odps_nb.parsing.values import UnshowableError

#: Maximum pixels of a picture to decode.
MAX_PIXELS: Final = 40_000_000
#: Other maxima. Phones take HEIC pictures of 48 megapixels, and no decoder can decode them at a
#: reduced size; 64 megapixels need about 500 MB of memory.
_MAXIMA: Final = {"HEIF": 64_000_000}
_TOO_MANY: Final = f"more than {MAX_PIXELS // 10**6} megapixels: not decoded"

_JPEG: Final = ("JPEG", "MPO")  # Pillow's names; MPO contains more pictures after the first one
_FRAMES: Final = 24

try:
    from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError, features
except ImportError:  # `parse` reports that Pillow is missing
    Image = None  # type: ignore[assignment]
else:
    register()
    Image.init()  # load all formats now, not again in each forked job


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the size in pixels and a thumbnail; only the size if ``whole`` is false."""
    mime, size = options["mime"], Size(**options["size"])
    if PICTURES[mime] == "ICO":  # check the size first, because opening decodes an icon
        check_pixels(*icon_size(data))
    try:
        if not options.get("whole", True):
            with _opened(data, mime) as image:
                return answer((_extent(image),))
        return answer(*_made(data, mime, size))
    except (OSError, SyntaxError) as error:
        note = _refusal(data, mime, error)
        if not note.startswith(DAMAGED):
            raise UnshowableError(note) from None
        return _rest(data, mime, size, note)


def _made(data: bytes, mime: str, size: Size) -> tuple[list[str], bytes]:
    with _opened(data, mime) as image:
        # an icon may contain a picture of any size although its header states 16 × 16
        most = _MAXIMA.get(image.format or "", MAX_PIXELS)
        Image.MAX_IMAGE_PIXELS = most // 2  # Pillow raises an error above twice this number
        try:
            return drawn(image, size)
        except Image.DecompressionBombError:
            raise UnshowableError(_TOO_MANY) from None


def _rest(data: bytes, mime: str, size: Size, note: str) -> tuple[dict[str, Any], bytes]:
    """Draw the readable part of a truncated or damaged picture, and add ``note``."""
    ImageFile.LOAD_TRUNCATED_IMAGES = True  # global, but not shared with other jobs
    try:
        facts, drawn = _made(data, mime, size)
    except (OSError, SyntaxError):
        raise UnshowableError(note) from None
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = False
    return answer(facts, drawn, note=f"{note}; the readable part is drawn")


def _refusal(data: bytes, mime: str, error: BaseException) -> str:
    if ends_early(data):
        return ENDS_EARLY
    if not isinstance(error, UnidentifiedImageError):
        return refusal_of(error)
    if PICTURES[mime] == "JPEG" and data.startswith(b"\xff\xd8\xff\xf7"):
        return "not decoded here: Pillow does not decode JPEG-LS"
    what = tiff_form(data) if PICTURES[mime] == "TIFF" else ""
    return f"not decoded here: Pillow does not decode {what or f'this form of {PICTURES[mime]}'}"


def pixels(data: bytes) -> int:
    """Return the number of pixels that a picture's header states, without decoding it."""
    with _opened(data, *PICTURES) as image:
        return image.size[0] * image.size[1]


def _opened(data: bytes, *mimes: str) -> Image.Image:
    if Image is None:
        raise MissingDependencyError("pictures need Pillow", extra="notebook")
    try:
        return open_picture(data, *mimes)
    except Image.DecompressionBombError:
        raise UnshowableError(_TOO_MANY) from None


def drawn(image: Image.Image, size: Size) -> tuple[list[str], bytes]:
    """Return facts about an open picture, and its thumbnail."""
    most = _MAXIMA.get(image.format or "", MAX_PIXELS)
    if image.format == "PNG":
        # EXIF data may follow the pixels: getexif() decodes them, and errors would be lost there
        check_pixels(*image.size, most=most)
        image.load()
    facts = [_extent(image)]
    if image.format in _JPEG:
        image.draft(None, _box(size))  # Pillow then decodes at reduced size if possible
    check_pixels(*image.size, most=most)
    check_signs(image)
    # not animations: depth maps and previews that phones append to a JPEG, and layers of a PSD
    has_more = image.format not in (*_JPEG, "PSD") and getattr(image, "is_animated", False)
    animated = has_more and image.format != "TIFF"
    if has_more and image.format == "TIFF":
        facts.append("the first of several pictures")
    is_deep = image.mode[0] in "IF"
    if animated:
        facts.append("animated")
    data = _moving(image, size) if animated and not is_deep and size.layout == "single" else b""
    if not data:
        if animated:
            image.seek(0)
        if is_deep:
            image, more_facts = stretched(image)
            facts += more_facts
        data = thumbnail(image, size)
    return facts, data


def _extent(image: Image.Image) -> str:
    width, height = image.size
    # stored rotated by 90°, but Pillow states the size of an upright TIFF
    if image.format != "TIFF" and orientation(image) in (5, 6, 7, 8):
        width, height = height, width
    return f"{width} × {height}"


def _box(size: Size) -> tuple[int, int]:
    """Return twice the CSS size, for high-density screens."""
    return size.width * 2, size.height * 2


def check_pixels(width: int, height: int, *, most: int = MAX_PIXELS) -> None:
    """Raise `UnshowableError` for a picture with more than ``most`` pixels."""
    if width * height > most:
        raise UnshowableError(
            f"{width} × {height} is {width * height / 1e6:.0f} megapixels, "
            f"more than {most // 10**6}: not decoded"
        )


def thumbnail(image: Image.Image, size: Size) -> bytes:
    """Return a small, upright sRGB picture, encoded in a suitable format.

    The format is PNG for few colours; otherwise WebP if the picture is transparent, else JPEG.
    """
    small = eight_bits(image)
    small.thumbnail(_box(size), reducing_gap=2.0)
    small = as_srgb(upright(small))
    if small.mode == "RGBA" and small.getchannel("A").getextrema()[0] == 255:
        small = small.convert("RGB")
    out = io.BytesIO()
    if small.getcolors(256) is not None:
        form = "PNG"  # optimize=True would take ten times as long to save a tenth of the bytes
    elif small.mode == "RGB":
        form = "JPEG"
    else:
        form = "WEBP" if features.check("webp") else "PNG"
    small.save(out, form, quality=82)
    return out.getvalue()


def upright(image: Image.Image) -> Image.Image:
    """Return a picture turned as its EXIF data says."""
    return image if orientation(image) is None else ImageOps.exif_transpose(image) or image


def eight_bits(image: Image.Image) -> Image.Image:
    """Return a copy in L, LA, RGB or RGBA, or in CMYK if there is a profile for it."""
    is_grey = image.mode in ("1", "L", "LA")
    if "A" in image.getbands() or "transparency" in image.info:
        return image.convert("LA" if is_grey else "RGBA")
    if image.mode == "CMYK" and "icc_profile" in image.info:
        return image.copy()
    return image.convert("L" if is_grey else "RGB")


def _moving(image: Image.Image, size: Size) -> bytes:
    """Encode up to 24 frames as a WebP animation, or return ``b""`` if that is not possible."""
    if not features.check("webp"):
        return b""
    frames: list[Image.Image] = []
    spent, times = 0, []
    for number in range(_FRAMES):
        try:
            image.seek(number)
        except EOFError:
            break
        spent += image.size[0] * image.size[1]
        check_pixels(*image.size)
        if spent > MAX_PIXELS:
            return b""
        frame = image.convert("RGBA")
        frame.thumbnail((size.width, size.height))
        frames.append(as_srgb(frame))
        times.append(max(20, int(image.info.get("duration") or 100)))
    if len(frames) < 2:
        return b""
    out = io.BytesIO()
    # only three loops, because endless motion makes nearby text unreadable for some people
    frames[0].save(
        out, "WEBP", save_all=True, append_images=frames[1:], duration=times, loop=3, quality=75
    )
    return out.getvalue()
