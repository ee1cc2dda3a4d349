"""CRC32C (Castagnoli) by the ``crc32c`` package, else by a table some ten thousand times slower."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from odps_nb.wire._push import BytesLike

_REVERSED_POLYNOMIAL = 0x82F63B78


@cache
def _table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = (value >> 1) ^ (_REVERSED_POLYNOMIAL if value & 1 else 0)
        return value

    return tuple(entry(value) for value in range(256))


def crc32c_slow(data: BytesLike, value: int = 0) -> int:
    """Return the CRC32C of ``data`` in pure Python, continuing from ``value``."""
    table, register = _table(), value ^ 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        register = (register >> 8) ^ table[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF


def _choose() -> tuple[Callable[..., int], str, bool]:
    try:
        import crc32c as package
    except ImportError:
        return crc32c_slow, "pure Python (slow; pip install crc32c)", False
    how = "hardware" if package.hardware_based else "software"
    version = getattr(package, "__version__", "before 2.9")  # releases until then don't tell it
    name = f"crc32c {version} ({how})"
    return package.crc32c, name, bool(package.hardware_based)


_CHOSEN = _choose()
crc32c: Callable[..., int] = _CHOSEN[0]
IMPLEMENTATION: str = _CHOSEN[1]
IS_FAST: bool = _CHOSEN[2]
"""``crc32c(data, value=0) -> int`` continues from ``value``; the implementation's name;
whether it uses the processor's instruction."""
