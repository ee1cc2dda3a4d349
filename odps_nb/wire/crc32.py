"""CRC-32 (the gzip polynomial) for frame footers; uses zlib-ng (4 times faster) if installed."""

from __future__ import annotations

import zlib
from collections.abc import Callable


def _choose() -> tuple[Callable[..., int], str]:
    try:
        from zlib_ng import zlib_ng
    except ImportError:
        return zlib.crc32, f"zlib {zlib.ZLIB_RUNTIME_VERSION}"
    return zlib_ng.crc32, f"zlib-ng {zlib_ng.ZLIBNG_VERSION}"


_CHOSEN = _choose()
crc32: Callable[..., int] = _CHOSEN[0]
IMPLEMENTATION: str = _CHOSEN[1]
"""Name of the implementation. ``crc32(data, value=0)`` continues the checksum ``value``."""
