"""Encodes PIL images and NumPy arrays in BLOB cells; rejects values that a format cannot store."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from odps_nb.convert.pictures import ORIENTATION, orientation
from odps_nb.errors import ArgumentError, MissingDependencyError

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """A file format for pictures; ``modes`` are the Pillow modes that it stores unchanged."""

    name: str
    mime: str
    suffix: str
    modes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, name: str) -> ImageFormat:
        """Return the format by name: ``png``, ``jpeg``, ``webp`` or ``npy`` (arrays only)."""
        image_format = _FORMATS.get(name.lower() if isinstance(name, str) else "")
        if image_format is None:
            raise ArgumentError(
                f"pictures cannot be encoded as {name!r}",
                argument="image_format",
                hint=f"choose one of {', '.join(_FORMATS)}",
            )
        return image_format


_PLAIN = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
_FORMATS = {
    "png": ImageFormat("png", "image/png", ".png", _PLAIN | {"I;16", "I;16B"}),
    "jpeg": ImageFormat("jpeg", "image/jpeg", ".jpg", frozenset({"L", "RGB", "CMYK"})),
    "webp": ImageFormat("webp", "image/webp", ".webp", _PLAIN),
    "npy": ImageFormat("npy", "application/x-npy", ".npy"),
}
_SETTINGS: dict[str, dict[str, Any]] = {"jpeg": {"quality": 95}, "webp": {"lossless": True}}
PNG = _FORMATS["png"]
# first letters of the Pillow modes to which a profile applies, by the colour space in its header
_SPACES = {b"GRAY": "L", b"RGB ": "RP", b"CMYK": "C"}
_CHANNELS = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def is_picture(value: object) -> bool:
    """Whether this is a Pillow image; does not import Pillow."""
    return any(
        (base.__module__, base.__name__) == ("PIL.Image", "Image") for base in type(value).__mro__
    )


def is_array(value: object) -> bool:
    """Whether this is a NumPy array."""
    return isinstance(value, np.ndarray)


def unfit(value: Any, wanted: ImageFormat) -> tuple[str, str] | None:
    """Return why the value cannot be encoded, and a hint; ``None`` if it can be encoded."""
    if is_array(value):
        return _unfit_array(value, wanted)
    if wanted.name == "npy":
        return "npy cannot store a picture", "pass np.asarray(picture), or image_format='png'"
    if not all(value.size):
        return "the picture has no pixels", "pass None for a missing blob"
    if value.mode not in wanted.modes:
        return (
            f"{wanted.name.upper()} cannot store a picture of mode {value.mode}",
            "convert it, e.g. picture.convert('RGB')",
        )
    return None


def _unfit_array(value: np.ndarray[Any, Any], image_format: ImageFormat) -> tuple[str, str] | None:
    kind = f"an array of {value.dtype}, shape {value.shape},"
    if isinstance(value, np.ma.MaskedArray):
        return f"{kind} has a mask, which would be lost", "pass array.filled(…)"
    if image_format.name == "npy":
        if value.dtype.hasobject:
            return f"{kind} holds Python objects", "convert it to a numeric dtype"
        return None
    if (mode := _mode(value)) is None:
        return (
            f"{kind} is not a picture",
            "pass uint8 with the shape (height, width) or (height, width, 1 to 4 channels), uint16 "
            "or bool with the shape (height, width), or image_format='npy'",
        )
    if mode not in image_format.modes:
        reason = f"{kind} has the mode {mode}, which {image_format.name.upper()} cannot store"
        return reason, "pass image_format='png'"
    return None


def _mode(value: np.ndarray[Any, Any]) -> str | None:
    """Return the Pillow mode for an array, or ``None`` if it is not a picture."""
    if not value.size or value.ndim not in (2, 3):
        return None
    if value.ndim == 3:
        return _CHANNELS.get(value.shape[2]) if value.dtype == np.uint8 else None
    return {"uint8": "L", "uint16": "I;16", "bool": "1"}.get(value.dtype.name)


def encoded(value: Any, wanted: ImageFormat) -> tuple[bytes, str | None]:
    """Return a picture or array as an encoded file, and the name of the picture's original file."""
    target = io.BytesIO()
    if wanted.name == "npy":
        np.save(target, value, allow_pickle=False)
        return target.getvalue(), None
    name = getattr(value, "filename", None)
    settings = dict(_SETTINGS.get(wanted.name, {}))
    if is_array(value):
        value = _of_array(value)
    else:
        settings |= _looks(value)
    value.save(target, format=wanted.name.upper(), **settings)
    stem = PurePath(name).stem if isinstance(name, str) else ""
    return target.getvalue(), stem + wanted.suffix if stem else None


def _looks(picture: Image) -> dict[str, Any]:
    """Return what Pillow would drop but viewers apply: colour profile and orientation.

    Only a picture that was opened and not changed has a format; a caller may have turned any other.
    """
    from PIL.Image import Exif

    profile = picture.info.get("icc_profile") or b""
    fits = picture.mode[0] in _SPACES.get(profile[16:20], "")
    settings: dict[str, Any] = {"icc_profile": profile if fits else None}
    if picture.format is not None:
        picture.load()  # Pillow turns the pixels of a TIFF upright
        if (turned := orientation(picture)) is not None:
            settings["exif"] = exif = Exif()
            exif[ORIENTATION] = turned
    return settings


def _of_array(value: np.ndarray[Any, Any]) -> Image:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            "writing arrays as pictures needs Pillow, which is not installed",
            extra="notebook",
            hint="pip install pillow, or pass image_format='npy'",
        ) from error
    flat = value[:, :, 0] if value.ndim == 3 and value.shape[2] == 1 else value
    native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    return Image.fromarray(np.ascontiguousarray(native))
