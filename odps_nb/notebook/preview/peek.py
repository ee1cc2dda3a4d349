"""Read as much of a blob as its preview needs, and no more.

A blob is anything with the few members of `BlobLike`, so values do in tests and `access.Blob`
does in a notebook.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from odps_nb.notebook.preview.kinds.drawing import Excerpt
from odps_nb.notebook.preview.media_types import Family, Kind
from odps_nb.notebook.preview.sniff import HEAD, sniff

__all__ = ["READ_LIMITS", "BlobFileLike", "BlobLike", "peek", "sniff_blob"]

_MIB: Final = 1024 * 1024
#: Bytes that are read at most before a blob of this family is drawn.
READ_LIMITS: Final = {
    Family.IMAGE: 16 * _MIB,
    Family.COLUMNS: 8 * _MIB,
    Family.ARCHIVE: 8 * _MIB,
    Family.PDF: 2 * _MIB,
    Family.JSON: 256 * 1024,
}
# these go into the page as they are, so the limit is what the page may hold
_EMBEDDED: Final = frozenset({Family.SVG, Family.AUDIO, Family.VIDEO})


class BlobFileLike(Protocol):
    """An opened blob. ``read`` raises where bytes do not agree with their checksums."""

    @property
    def verified(self) -> bool:
        """Whether all checksums were compared and the answer proved that nothing is missing."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes, none only at the end."""

    def close(self) -> None:
        """Let go of the connection."""


class BlobLike(Protocol):
    """What a preview needs of a blob; `odps_nb.access.blob.Blob` has it."""

    @property
    def size(self) -> int | None:
        """Bytes in all, or ``None`` if unknown; may cost a request."""

    @property
    def mime_type(self) -> str | None:
        """What the uploader declared; may cost a request."""

    @property
    def file_name(self) -> str | None:
        """What the uploader called it; may cost a request."""

    def open(self) -> BlobFileLike:
        """Return the blob as a file; the caller closes it."""

    def save(self, path: Path, /) -> Path:
        """Write it into a folder under a safe name, over nothing, and return the file."""


def peek(blob: BlobLike, *, embed: int) -> tuple[Kind, Excerpt]:
    """Read the head, sniff, and read on only when the preview needs all and all is small enough.

    Parameters
    ----------
    blob
        Opened and closed once.
    embed
        Bytes that may go into a ``data:`` URL.
    """
    file = blob.open()
    try:
        head = _read_up_to(file, HEAD + 1)
        if len(head) <= HEAD:
            kind = sniff(head, len(head))
            return kind, Excerpt(data=head, whole=True, size=len(head), verified=file.verified)
        kind = sniff(head[:HEAD], blob.size)
        limit = READ_LIMITS.get(kind.family, 0)
        if kind.family in _EMBEDDED:
            limit = embed
        known = blob.size
        if limit <= HEAD or (known is not None and known > limit):
            return kind, Excerpt(data=head[:HEAD], whole=False, size=known)
        data = head + _read_up_to(file, limit + 1 - len(head))
        whole = len(data) <= limit
        return kind, Excerpt(
            data=data if whole else data[:HEAD],
            whole=whole,
            size=len(data) if whole else blob.size,
            verified=whole and file.verified,
        )
    finally:
        file.close()


def sniff_blob(blob: BlobLike) -> Kind:
    """Return the kind of a blob from its head; reads no more than that."""
    file = blob.open()
    try:
        head = _read_up_to(file, HEAD + 1)
    finally:
        file.close()
    return sniff(head[:HEAD], len(head) if len(head) <= HEAD else blob.size)


def _read_up_to(file: BlobFileLike, count: int) -> bytes:
    parts = []
    while count > 0:
        part = file.read(min(count, _MIB))
        if not part:
            break
        parts.append(bytes(part))
        count -= len(part)
    return b"".join(parts)
