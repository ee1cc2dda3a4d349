"""CRC-32 (the gzip polynomial) of frame footers: chosen in one place (floor 1).

Not CRC32C: blocks carry that one, frames this one (``protocol.md`` 6.2).
"""

from __future__ import annotations

from zlib import crc32

__all__ = ["IMPLEMENTATION", "crc32"]

IMPLEMENTATION = "zlib"
"""Name of the implementation in use."""
