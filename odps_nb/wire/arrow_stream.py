"""Where an Arrow IPC stream begins, ends, and what proves that it is whole (floor 1).

Knows the envelope only, not Arrow: pyarrow parses the batches on higher floors, and takes a
stream that stops at a message boundary for a whole one (``protocol.md`` 10.1 no. 15). The end
marker is what proves the end.
"""

from __future__ import annotations

from typing import Literal

from odps_nb.errors import FramingError, TruncatedError
from odps_nb.terms import Compression
from odps_nb.wire._push import BytesLike
from odps_nb.wire.codings import HTTP_NAMES, coding_of, sniff

__all__ = ["CONTINUATION", "END_MARKER", "EndMarkerCheck", "sniff_body"]

CONTINUATION = b"\xff\xff\xff\xff"
"""The four bytes in front of every message."""
END_MARKER = CONTINUATION + b"\x00\x00\x00\x00"
"""A message of length zero: the end of the stream."""


class EndMarkerCheck:
    """Watch a stream go by and know whether it ended with the end marker.

    Examples
    --------
    >>> check = EndMarkerCheck()
    >>> check.feed(b"... batches ...")
    >>> check.complete
    False
    >>> check.feed(END_MARKER)
    >>> check.complete
    True
    """

    __slots__ = ("_last", "_total")

    def __init__(self) -> None:
        self._last = b""
        self._total = 0

    def feed(self, chunk: BytesLike) -> None:
        """Take the next bytes of the decoded stream, cut anywhere."""
        self._total += len(chunk)
        self._last = (self._last + bytes(chunk[-8:]))[-8:]

    @property
    def complete(self) -> bool:
        """Whether the bytes so far end with the end marker."""
        return self._last == END_MARKER

    @property
    def total(self) -> int:
        """How many bytes went by."""
        return self._total

    def require(self) -> None:
        """Raise unless the stream is whole.

        Raises
        ------
        TruncatedError
            When the bytes do not end with the end marker.
        """
        if not self.complete:
            raise TruncatedError(
                f"the Arrow stream stops after {self._total} bytes without its end marker",
                offset=self._total,
                actual=self._total,
                hint="batches are missing; read the split again or resume it",
            )


def sniff_body(
    first4: BytesLike, content_encoding: str | Compression | None
) -> Literal["ipc"] | Compression:
    """Tell a plain IPC stream from one inside a content coding (``protocol.md`` 5.5).

    Parameters
    ----------
    first4
        The first four bytes of the body.
    content_encoding
        The header's value; must agree with the bytes where it is present.

    Raises
    ------
    TruncatedError
        For a body of fewer than four bytes.
    FramingError
        When the bytes are neither, or contradict the header.
    """
    head = bytes(first4[:4])
    if len(head) < 4:
        raise TruncatedError(
            f"the body ends after {len(head)} bytes: no Arrow stream is that short",
            offset=len(head),
            expected=4,
            actual=len(head),
        )
    declared = coding_of(content_encoding)
    found: Literal["ipc"] | Compression | None = "ipc" if head == CONTINUATION else sniff(head)
    if found is None:
        raise FramingError(
            f"the body begins with {head.hex(' ')}: neither Arrow, zstd nor LZ4", offset=0
        )
    if declared is not Compression.NONE and found is not declared:
        raise FramingError(
            f"the header says {HTTP_NAMES[declared]}, but the body begins with {head.hex(' ')}",
            offset=0,
        )
    return found
