"""The prefix of a blob that was delivered before its connection broke.

A retried blob starts again at its first byte: the bytes that were delivered already are compared,
by CRC32C, and skipped. Sends no requests.
"""

from __future__ import annotations

from odps_nb.errors import ChecksumError
from odps_nb.wire.crc32c import crc32c

__all__ = ["DeliveredPrefix"]


class DeliveredPrefix:
    """Counts delivered bytes; verifies and skips them when the blob is read again.

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
        """Count bytes that are delivered to the caller."""
        self.size += len(data)
        self._crc = crc32c(data, self._crc)

    def restart(self) -> None:
        """Start over: the blob is read again from its first byte."""
        self._left, self._seen = self.size, 0

    def skip_delivered(self, data: bytes | memoryview) -> memoryview:
        """Return the part of the next bytes that was not delivered yet.

        Raises
        ------
        ChecksumError
            The bytes differ from those delivered before.
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
        """End the blob; raise if it is shorter than what was delivered before."""
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
