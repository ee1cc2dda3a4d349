"""Raster images become small pictures that we encoded ourselves (floor 5).

No byte of the original reaches the page. Pillow is told the one format that the signature
proved, and the pixel size is checked from the header before anything is decoded: a PNG of 17 KB
can hold 144 million pixels.
"""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any, Final

from odps_nb.errors import MissingDependencyError
from odps_nb.notebook.html import BACKDROP, TINT, data_url, element
from odps_nb.notebook.kinds.drawing import GRID, Drawing, Excerpt, Size, UnshowableError
from odps_nb.notebook.media_types import Kind

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["MAX_PIXELS", "draw", "framed"]

#: Pixels of the largest picture that is decoded.
MAX_PIXELS: Final = 40_000_000

_FORMATS: Final = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
    "image/tiff": "TIFF",
    "image/avif": "AVIF",
}
_FRAMES: Final = 24
_ORIENTATION: Final = 0x0112  # EXIF


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw a thumbnail.

    Raises
    ------
    UnshowableError
        When there are too many pixels, or the file is cut or corrupt.
    MissingDependencyError
        Without Pillow.
    """
    if not excerpt.whole:
        raise UnshowableError("too large for a thumbnail")
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependencyError(
            "pictures need Pillow", extra="notebook", hint="pip install 'odps-nb[notebook]'"
        ) from None
    with warnings.catch_warnings():
        # Pillow warns of odd files; what matters here either raises or is checked below
        warnings.simplefilter("ignore")
        try:
            image = Image.open(io.BytesIO(excerpt.data), formats=[_FORMATS[kind.mime]])
        except Image.DecompressionBombError:
            raise UnshowableError(
                f"more than {MAX_PIXELS // 10**6} megapixels: not decoded"
            ) from None
        with image:
            return _draw_open(image, size, name=name)


def _draw_open(image: Image.Image, size: Size, *, name: str) -> Drawing:
    _check_pixels(image)
    width, height = image.size
    if image.getexif().get(_ORIENTATION) in (5, 6, 7, 8):
        width, height = height, width  # stored lying on its side
    facts = [f"{width} × {height}"]
    animated = bool(getattr(image, "is_animated", False))
    if animated:
        facts.append("animated")
    mime, data = _moving(image, size) if animated and size.layout == "single" else ("", b"")
    if not data:
        image.seek(0)
        mime, data = _still(image, size)
    picture = element(
        "img",
        attributes={"src": data_url(mime, data), "alt": f"{name}, {' '.join(facts)}"},
        style=f"max-width:100%;max-height:{size.height}px;width:auto;height:auto;"
        + (BACKDROP if mime in ("image/png", "image/webp") else ""),
    )
    return Drawing(html=framed(picture, size), facts=tuple(facts))


def framed(picture: str, size: Size) -> Any:
    """Return ``picture`` in the middle of a tinted box of the tile's height."""
    return element(
        "div",
        picture,
        style=f"display:flex;align-items:center;justify-content:center;background-color:{TINT};"
        f"min-height:{min(size.height, GRID.height)}px",
    )


def _check_pixels(image: Image.Image) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise UnshowableError(
            f"{width} × {height} is {width * height / 1e6:.0f} megapixels, "
            f"more than {MAX_PIXELS // 10**6}: not decoded"
        )


def _has_transparency(image: Image.Image) -> bool:
    return "A" in image.getbands() or "transparency" in image.info


def _still(image: Image.Image, size: Size) -> tuple[str, bytes]:
    """Encode the present frame: PNG for few colours, JPEG without and WebP with transparency."""
    from PIL import ImageOps, features

    # twice the CSS size, for screens with small pixels
    box = (size.width * 2, size.height * 2)
    if image.format == "JPEG":
        image.draft("RGB", box)  # decodes at a fraction of the size where it can
    small = _eight_bits(image)
    small.thumbnail(box, reducing_gap=2.0)
    small = ImageOps.exif_transpose(small) or small
    if small.mode == "RGBA" and small.getchannel("A").getextrema()[0] == 255:
        small = small.convert("RGB")
    out = io.BytesIO()
    if small.getcolors(256) is not None:
        small.save(out, "PNG", optimize=True)
        return "image/png", out.getvalue()
    if small.mode == "RGB":
        small.save(out, "JPEG", quality=82)
        return "image/jpeg", out.getvalue()
    form = "WEBP" if features.check("webp") else "PNG"
    small.save(out, form, quality=82)
    return f"image/{form.lower()}", out.getvalue()


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return a copy in RGB or RGBA; deeper greys are stretched over the whole scale."""
    from PIL import Image

    if image.mode[0] in "IF":
        import numpy as np

        values = np.asarray(image, dtype=np.float64)
        low, high = np.nanmin(values), np.nanmax(values)
        scaled = np.nan_to_num((values - low) / ((high - low) or 1.0)) * 255
        return Image.fromarray(scaled.astype(np.uint8)).convert("RGB")
    return image.convert("RGBA" if _has_transparency(image) else "RGB")


def _moving(image: Image.Image, size: Size) -> tuple[str, bytes]:
    """Encode up to 24 frames that play three times; nothing where they would cost too much."""
    from PIL import features

    if not features.check("webp"):
        return "", b""
    frames: list[Image.Image] = []
    spent, times = 0, []
    for number in range(_FRAMES):
        try:
            image.seek(number)
        except EOFError:
            break
        spent += image.size[0] * image.size[1]
        _check_pixels(image)
        if spent > MAX_PIXELS:
            return "", b""
        frame = image.convert("RGBA")
        frame.thumbnail((size.width, size.height))
        frames.append(frame)
        times.append(max(20, int(image.info.get("duration") or 100)))
    if len(frames) < 2:
        return "", b""
    out = io.BytesIO()
    # three rounds: what moves beside a text for ever can be unreadable for some
    frames[0].save(
        out, "WEBP", save_all=True, append_images=frames[1:], duration=times, loop=3, quality=75
    )
    return "image/webp", out.getvalue()
