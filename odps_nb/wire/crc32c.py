"""CRC32C (Castagnoli) from the ``crc32c`` package."""

from __future__ import annotations

from collections.abc import Callable

import crc32c as _package

IS_FAST: bool = bool(_package.hardware_based)
crc32c: Callable[..., int] = _package.crc32c
IMPLEMENTATION: str = (
    f"crc32c {getattr(_package, '__version__', 'before 2.9')} "  # older versions lack it
    f"({'hardware' if IS_FAST else 'software'})"
)
"""``crc32c(data, value=0) -> int``, which continues from ``value``; the implementation's name;
and whether it uses the CPU's CRC instruction."""
