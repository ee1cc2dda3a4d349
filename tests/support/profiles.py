"""ICC profiles with three primaries and one curve, and the colours that they define."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

#: x and y of red, green and blue; the white point of all is D65.
ADOBE = ((0.64, 0.33), (0.21, 0.71), (0.15, 0.06))
P3 = ((0.68, 0.32), (0.265, 0.69), (0.15, 0.06))
SRGB = ((0.64, 0.33), (0.3, 0.6), (0.15, 0.06))
SWAPPED = (SRGB[2], SRGB[1], SRGB[0])
#: The curve of ADOBE is a power of 563/256; the others use 2.2.
ADOBE_POWER = 563 / 256
_D65 = (0.3127, 0.329)
# from D65 to D50 (Bradford), as printed in ICC.1:2022, annex E
_TO_D50 = np.array(
    [
        [1.047886, 0.022919, -0.050216],
        [0.029582, 0.990484, -0.017079],
        [-0.009252, 0.015073, 0.751678],
    ]
)


def _light(x: float, y: float) -> np.ndarray:
    return np.array([x / y, 1, (1 - x - y) / y])


def _matrix(primaries: Sequence[tuple[float, float]]) -> np.ndarray:
    columns = np.stack([_light(*one) for one in primaries], axis=1)
    return columns * np.linalg.solve(columns, _light(*_D65))


def _tag(kind: bytes, data: bytes) -> bytes:
    return kind + bytes(4) + data + bytes(-len(data) % 4)


def _assembled(space: bytes, tags: dict[bytes, bytes]) -> bytes:
    table, body, at = struct.pack(">I", len(tags)), b"", 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        table += name + struct.pack(">II", at + len(body), len(data))
        body += data
    white = struct.pack(">3i", *(round(part * 65536) for part in (0.9642, 1, 0.8249)))
    header = struct.pack(
        ">I4sI4s4s4s", at + len(body), bytes(4), 0x02400000, b"mntr", space, b"XYZ "
    )
    header += struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + white
    return header + bytes(128 - len(header)) + table + body


def _common(power: float) -> tuple[dict[bytes, bytes], bytes]:
    text = b"profile of a test\0"
    named = _tag(b"desc", struct.pack(">I", len(text)) + text + bytes(78))
    white = _tag(b"XYZ ", struct.pack(">3i", 63190, 65536, 54061))
    curve = _tag(b"curv", struct.pack(">IH", 1, round(power * 256)))
    return {b"desc": named, b"wtpt": white, b"cprt": _tag(b"text", text)}, curve


def rgb_profile(primaries: Sequence[tuple[float, float]], power: float = 2.2) -> bytes:
    """Return a profile (ICC v2) of a screen with these primaries."""
    tags, curve = _common(power)
    for name, column in zip("rgb", (_TO_D50 @ _matrix(primaries)).T, strict=True):
        fixed = struct.pack(">3i", *(round(part * 65536) for part in column))
        tags[f"{name}XYZ".encode()] = _tag(b"XYZ ", fixed)
        tags[f"{name}TRC".encode()] = curve
    return _assembled(b"RGB ", tags)


def grey_profile(power: float) -> bytes:
    """Return a greyscale profile (ICC v2)."""
    tags, curve = _common(power)
    return _assembled(b"GRAY", {**tags, b"kTRC": curve})


def meant(
    colour: Sequence[int], primaries: Sequence[tuple[float, float]], power: float
) -> tuple[int, ...]:
    """Return the sRGB value of a colour on a screen with these primaries, if sRGB contains it."""
    light = np.linalg.inv(_matrix(SRGB)) @ _matrix(primaries) @ (np.array(colour) / 255) ** power
    light = np.clip(light, 0, 1)
    coded = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return tuple(round(float(part) * 255) for part in coded)
