"""Converts a thumbnail to sRGB according to its ICC profile or gamma, as browsers do.

In PNG, an ICC profile takes precedence over an sRGB chunk, which takes precedence over gAMA and
cHRM (PNG 3, 4.3). An unusable profile is ignored.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

with contextlib.suppress(ImportError):  # reported by `picture`
    from PIL import Image, ImageCms

#: Maximum size of a profile in bytes; printer profiles can be up to 3 MB.
_LARGEST: Final = 4 << 20
_MODES: Final = {"GRAY": "L", "RGB": "RGB", "CMYK": "CMYK"}
# x and y of white, red, green and blue (IEC 61966-2-1), in the order of cHRM
_SRGB: Final = (0.3127, 0.329, 0.64, 0.33, 0.3, 0.6, 0.15, 0.06)
# Bradford cone responses, used for chromatic adaptation as in ICC profiles
_CONES: Final = np.array(
    [[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]]
)
_SAME: Final = 0.05
"""A gamma closer to 1/2.2 than this is ignored, as in libpng."""


def as_srgb(image: Image.Image) -> Image.Image:
    """Convert a picture of mode L, LA, RGB, RGBA or CMYK to sRGB with mode L, RGB or RGBA."""
    alpha = image.getchannel("A") if "A" in image.getbands() else None
    colours = image if alpha is None else image.convert(image.mode[:-1])
    with contextlib.suppress(Exception):  # ignore any error in a profile or gamma
        colours = _translated(colours, image.info)
    if colours.mode == "CMYK" or alpha is not None:
        colours = colours.convert("RGB")
    if alpha is not None:
        colours.putalpha(alpha)
    # otherwise, Pillow would write the profile into a PNG, and browsers would apply it again
    colours.info = {}
    return colours


def _translated(image: Image.Image, info: dict[Any, Any]) -> Image.Image:
    profile, gamma, primaries = (
        info.get(name) for name in ("icc_profile", "gamma", "chromaticity")
    )
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
    if not primaries and abs(gamma * 2.2 - 1) < _SAME:
        return image
    light = (np.arange(256, dtype=np.float32) / 255) ** (1 / gamma)
    values = light[np.asarray(image)]
    if primaries and image.mode == "RGB":
        values = np.clip(values @ _between(primaries).T.astype(np.float32), 0, 1)
    shown = np.where(values <= 0.0031308, 12.92 * values, 1.055 * values ** (1 / 2.4) - 0.055)
    return Image.fromarray((shown * 255 + 0.5).astype(np.uint8))


def _between(primaries: Sequence[float]) -> np.ndarray[Any, Any]:
    """Return the matrix from linear light with these primaries to linear sRGB."""
    with np.errstate(all="raise"):  # raise for degenerate primaries
        there, here = _to_xyz(primaries), _to_xyz(_SRGB)
        whites = [_CONES @ matrix.sum(axis=1) for matrix in (there, here)]
        adapted = np.linalg.inv(_CONES) @ np.diag(whites[1] / whites[0]) @ _CONES
    between: np.ndarray[Any, Any] = np.linalg.inv(here) @ adapted @ there
    return between


def _to_xyz(primaries: Sequence[float]) -> np.ndarray[Any, Any]:
    """Return the matrix from linear RGB with these primaries to XYZ; white has luminance 1."""
    x, y = (np.array(primaries[at::2], dtype=float) for at in (0, 1))
    white, *colours = np.stack([x / y, np.ones(4), (1 - x - y) / y], axis=1)
    matrix = np.stack(colours, axis=1)
    return matrix * np.linalg.solve(matrix, white)
