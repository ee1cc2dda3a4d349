"""Reads only the bytes of a blob that its preview needs."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from odps_nb.formats.drawing import Excerpt
from odps_nb.formats.kind import HEAD, MIB, Format
from odps_nb.formats.registry import kinds, sniff

if TYPE_CHECKING:
    from odps_nb.access.blob import Blob
    from odps_nb.client.blob.file import PieceFile
    from odps_nb.client.blob.streamed import StreamedBlob


def peek(blob: StreamedBlob, *, embed: int, alone: bool = False) -> tuple[Format, Excerpt]:
    """Return the format of a blob and the bytes that its preview needs.

    Opens and closes the blob once. Reads the whole blob if it is within the limit of its kind,
    otherwise only the first `Kind.head` bytes.

    Parameters
    ----------
    embed
        Maximum bytes to embed in a ``data:`` URL.
    alone
        Whether the blob is shown alone and large; the read limit is then at least `Kind.alone`.
    """
    with closing(blob.open()) as file:
        format, head, size = _look(blob, file, blob.file_name)
        kind = kinds()[format.kind]
        limit = max(HEAD, kind.limit, format.limit, kind.alone if alone else 0)
        if size is not None and size > limit:
            data = _read_up_to(file, kind.head, head)
            return format, Excerpt(data=data[: kind.head], whole=False, size=size)
        data = head if len(head) <= HEAD else _read_up_to(file, limit + 1, head)
        whole = len(data) <= limit
        return format, Excerpt(
            data=data if whole else data[: kind.head],
            whole=whole,
            size=len(data) if whole else size,
            verified=whole and file.verified,
            room=embed,
        )


def recognise_head(blob: Blob | StreamedBlob, name: str = "") -> tuple[Format, str]:
    """Return the format of a blob and, for text, the first characters; reads only the head.

    ``name`` is the blob's file name, if known without a request.
    """
    with closing(blob.open()) as file:
        format, head, _ = _look(blob, file, name)
    text = head[:HEAD].decode(format.encoding, "replace") if format.encoding else ""
    return format, text


def _look(
    blob: Blob | StreamedBlob, file: PieceFile, name: str
) -> tuple[Format, bytes, int | None]:
    """Return the format, the first bytes (one more than `HEAD`), and the size if known."""
    head = _read_up_to(file, HEAD + 1)
    size = len(head) if len(head) <= HEAD else blob.size
    return sniff(head[:HEAD], size, name), head, size


def _read_up_to(file: PieceFile, count: int, head: bytes = b"") -> bytes:
    """Extend ``head`` to ``count`` bytes from the file; return a longer ``head`` unchanged."""
    parts = [head]
    count -= len(head)
    while count > 0:
        part = file.read(min(count, MIB))
        if not part:
            break
        parts.append(bytes(part))
        count -= len(part)
    return b"".join(parts)
