"""CRC32C (Castagnoli) from the ``crc32c`` package."""

from __future__ import annotations

from collections.abc import Callable

import crc32c as _package

IS_FAST: bool = bool(_package.hardware_based)
crc32c: Callable[..., int] = _package.crc32c
IMPLEMENTATION: str = (
    f"crc32c {getattr(_package, '__version__', 'before 2.9')} "  # older versions lack __version__
    f"({'hardware' if IS_FAST else 'software'})"
)
"""Name of the implementation, and whether it uses the CPU's CRC instruction. ``crc32c(data,
value=0)`` continues the checksum ``value``."""
