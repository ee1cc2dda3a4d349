"""Colours of a small picture in sRGB, by its ICC profile or its gamma, as browsers show them.

Of PNG, an ICC profile counts before the chunk sRGB, and that before gAMA (PNG 3, 4.3). A profile
that cannot be used is left out.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any, Final

import numpy as np

with contextlib.suppress(ImportError):  # said by `picture`
    from PIL import Image, ImageCms

#: Bytes of the largest profile that is used; those of printers have up to 3 MB.
_LARGEST: Final = 4 << 20
_MODES: Final = {"GRAY": "L", "RGB": "RGB", "CMYK": "CMYK"}
_SAME: Final = 0.05
"""A gamma that is nearer than this to 1/2.2 changes nothing without cHRM, as in Chromium."""


def as_srgb(image: Image.Image) -> Image.Image:
    """Return a picture of the modes L, LA, RGB, RGBA or CMYK in sRGB: as L, RGB or RGBA."""
    alpha = image.getchannel("A") if "A" in image.getbands() else None
    colours = image if alpha is None else image.convert(image.mode[:-1])
    with contextlib.suppress(Exception):  # whatever is wrong with a profile or a gamma
        colours = _translated(colours, image.info)
    if colours.mode == "CMYK" or alpha is not None:
        colours = colours.convert("RGB")
    if alpha is not None:
        colours.putalpha(alpha)
    colours.info = {}  # Pillow would write the profile into a PNG, where browsers apply it
    return colours


def _translated(image: Image.Image, info: dict[Any, Any]) -> Image.Image:
    profile, gamma = info.get("icc_profile"), info.get("gamma")
    if profile and len(profile) <= _LARGEST:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        mode = _MODES.get(source.profile.xcolor_space.strip())
        if (image.mode, mode) == ("L", "RGB"):
            image = image.convert("RGB")
        if mode != image.mode:
            return image
        target = ImageCms.createProfile("sRGB")
        transform = ImageCms.buildTransform(source, target, image.mode, "RGB")
        return transform.apply(image)
    if "srgb" in info or not gamma or image.mode == "CMYK":
        return image
    if "chromaticity" not in info and abs(gamma * 2.2 - 1) < _SAME:
        return image
    light = (np.arange(256, dtype=np.float32) / 255) ** (1 / gamma)
    values = light[np.asarray(image)]
    shown = np.where(values <= 0.0031308, 12.92 * values, 1.055 * values ** (1 / 2.4) - 0.055)
    return Image.fromarray((shown * 255 + 0.5).astype(np.uint8))
