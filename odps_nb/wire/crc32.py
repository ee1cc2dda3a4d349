"""CRC-32 (the gzip polynomial) of frame footers: picks the fastest implementation.

Not CRC32C: blocks carry that one, frames this one (``docs/protocol.md`` section 6.2). zlib is at
hand everywhere; zlib-ng, an optional package, folds with the processor's own multiplication and is
some four times faster.
"""

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
"""``crc32(data, value=0) -> int`` continues from ``value``; the implementation's name."""
