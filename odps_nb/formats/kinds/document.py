"""Documents (Word, PowerPoint, OpenDocument, EPUB): title, author and first lines of text."""

from __future__ import annotations

import re
from typing import Final

from odps_nb.formats.kind import MIB, Format, Head, Kind
from odps_nb.formats.parsing import draw_parsed

_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_OPEN: Final = "application/vnd.oasis.opendocument"
_WORD = Format(
    f"{_OFFICE}.wordprocessingml.document",
    "Word",
    aliases=(
        *("application/zip", "application/msword"),
        f"{_OFFICE}.wordprocessingml.template",
        "application/vnd.ms-word.document.macroenabled.12",
        "application/vnd.ms-word.template.macroenabled.12",
    ),
)
_POWER_POINT = Format(
    f"{_OFFICE}.presentationml.presentation",
    "PowerPoint",
    aliases=(
        *("application/zip", "application/vnd.ms-powerpoint"),
        f"{_OFFICE}.presentationml.slideshow",
        f"{_OFFICE}.presentationml.template",
        "application/vnd.ms-powerpoint.presentation.macroenabled.12",
        "application/vnd.ms-powerpoint.slideshow.macroenabled.12",
    ),
)
_EPUB = Format("application/epub+zip", "EPUB", aliases=("application/zip",))
_OPEN_DOCUMENTS = tuple(
    Format(f"{_OPEN}.{name}", label, aliases=("application/zip", f"{_OPEN}.{name}-template"))
    for name, label in (
        ("text", "OpenDocument text"),
        ("presentation", "OpenDocument slides"),
        ("graphics", "OpenDocument drawing"),
    )
)
# the local ZIP header of a part in these folders, with 26 bytes between its signature and its name
_PART: Final = re.compile(
    rb"PK\x03\x04.{26}(?:(word[/\\](?:document|_rels|styles|settings|fontTable|theme|numbering))"
    rb"|(ppt[/\\](?:presentation|_rels|slides|slideMasters|slideLayouts|theme|presProps))"
    rb"|(xl[/\\])|(mimetype.{0,64}?application/epub\+zip(?![a-z])))",
    re.DOTALL,
)
_BY_GROUP: Final = {1: _WORD, 2: _POWER_POINT, 3: None, 4: _EPUB}


def _recognise(head: Head) -> Format | None:
    if not head.data.startswith(b"PK\x03\x04"):
        return None
    if head.data.startswith(b"mimetype", 30):
        # the first file, uncompressed, contains the media type (OpenDocument part 2, 3.3; OCF 4.3)
        at = 38 + int.from_bytes(head.data[28:30], "little")
        for format in (_EPUB, *_OPEN_DOCUMENTS):
            mime = format.mime.encode()
            if re.match(re.escape(mime) + rb"(?:-template)?\s{0,2}PK", head.data[at : at + 100]):
                return format
    match = _PART.search(head.data)
    return _BY_GROUP[match.lastindex or 3] if match else None


KIND = Kind(
    name="document",
    formats=(_WORD, _POWER_POINT, *_OPEN_DOCUMENTS, _EPUB),
    draw=draw_parsed,
    whole=True,
    recognise=_recognise,
    limit=8 * MIB,
)
