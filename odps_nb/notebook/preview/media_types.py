"""The kinds of blobs that we know, as values. Pure: no bytes, no drawing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["BINARY", "EMPTY", "NULL", "TEXT", "UNREAD", "Family", "Kind", "differs"]


class Family(str, Enum):
    """What a preview does with a blob."""

    IMAGE = "image"
    SVG = "svg"
    AUDIO = "audio"
    VIDEO = "video"
    PDF = "pdf"
    JSON = "json"
    TABLE = "table"
    COLUMNS = "columns"
    ARRAY = "array"
    TEXT = "text"
    MARKUP = "markup"
    ARCHIVE = "archive"
    BINARY = "binary"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the bytes are.

    Attributes
    ----------
    family
        Chooses the preview.
    mime
        The media type, ours; the only one that ever gets into a ``data:`` URL.
    label
        For a person: ``PNG``, ``CSV``, ….
    encoding
        Python's name of the text encoding; empty for binary kinds.
    delimiter
        Between the cells of a CSV or TSV; else empty.
    aliases
        Other names that people give the same thing.
    """

    family: Family
    mime: str
    label: str
    encoding: str = ""
    delimiter: str = ""
    aliases: tuple[str, ...] = ()


BINARY = Kind(family=Family.BINARY, mime="application/octet-stream", label="binary")
EMPTY = Kind(family=Family.EMPTY, mime="application/x-empty", label="empty")
NULL = Kind(family=Family.EMPTY, mime="application/x-empty", label="null")
UNREAD = Kind(family=Family.BINARY, mime="application/octet-stream", label="not read")
TEXT = Kind(family=Family.TEXT, mime="text/plain", label="text")

# Labels that promise nothing in particular contradict nothing.
_VAGUE = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})
# A text is a fair label for everything that can be read as one.
_READABLE = frozenset({Family.TEXT, Family.TABLE, Family.JSON, Family.MARKUP})


def differs(declared: str | None, kind: Kind) -> bool:
    """Whether the declared media type contradicts what the bytes are.

    Parameters of the type (``; charset=…``), case, well-known other names and vague labels
    (``application/octet-stream``) contradict nothing, nor does ``text/plain`` for a readable kind.
    """
    label = (declared or "").split(";")[0].strip().lower()
    if label in _VAGUE or label == kind.mime or label in kind.aliases:
        return False
    if kind.family is Family.BINARY and kind.mime == BINARY.mime:
        # we do not know it, so we cannot say that the label lies, unless it names a known kind
        return label.startswith(("image/", "audio/", "video/", "text/"))
    return not (label == "text/plain" and kind.family in _READABLE)
