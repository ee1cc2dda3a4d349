"""What was handed out of a blob before its connection broke.

A blob that is read again begins at its first byte: what was given already is compared, by CRC32C,
and left out. Knows no requests.
"""

from __future__ import annotations

from odps_nb.errors import ChecksumError
from odps_nb.wire.crc32c import crc32c

__all__ = ["DeliveredPrefix"]


class DeliveredPrefix:
    """Counts the bytes that were given, and recognises them when they come again.

    Examples
    --------
    >>> prefix = DeliveredPrefix()
    >>> prefix.add(b"hel")
    >>> prefix.restart()
    >>> bytes(prefix.skip_delivered(b"he")), bytes(prefix.skip_delivered(b"llo"))
    (b'', b'lo')
    """

    __slots__ = ("_crc", "_left", "_seen", "size")

    def __init__(self) -> None:
        self.size: int = 0
        self._crc = self._seen = 0  # of the given bytes, and of those that came again
        self._left = 0  # given bytes that have not come again

    def add(self, data: bytes | memoryview) -> None:
        """Count bytes that are handed out."""
        self.size += len(data)
        self._crc = crc32c(data, self._crc)

    def restart(self) -> None:
        """Say that the blob comes once more, from its first byte."""
        self._left, self._seen = self.size, 0

    def skip_delivered(self, data: bytes | memoryview) -> memoryview:
        """Return what of the next bytes was not given yet.

        Raises
        ------
        ChecksumError
            What came again is not what was given.
        """
        view = memoryview(data)
        if not self._left:
            return view
        old, new = view[: self._left], view[self._left :]
        self._seen = crc32c(old, self._seen)
        self._left -= len(old)
        if not self._left:
            self._require_same()
        return new

    def finish(self) -> None:
        """Say that the blob has ended; raise if less came again than was given."""
        if self._left:
            self._require_same()

    def _require_same(self) -> None:
        if self._left or self._seen != self._crc:
            raise ChecksumError(
                "the blob is not the same as before the connection broke",
                expected=self._crc,
                actual=self._seen,
                offset=self.size,
            )
