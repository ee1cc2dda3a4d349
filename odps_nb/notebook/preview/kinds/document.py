"""Documents (Word, PowerPoint, OpenDocument, EPUB): title, author and first lines of text."""

from __future__ import annotations

import re
from typing import Final

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, headed_lines
from odps_nb.notebook.preview.kind import MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size
from odps_nb.terms import count_of

_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_OPEN: Final = "application/vnd.oasis.opendocument"
_WORD = Format(
    mime=f"{_OFFICE}.wordprocessingml.document",
    label="Word",
    aliases=(
        *("application/zip", "application/msword"),
        f"{_OFFICE}.wordprocessingml.template",
        "application/vnd.ms-word.document.macroenabled.12",
        "application/vnd.ms-word.template.macroenabled.12",
    ),
)
_POWER_POINT = Format(
    mime=f"{_OFFICE}.presentationml.presentation",
    label="PowerPoint",
    aliases=(
        *("application/zip", "application/vnd.ms-powerpoint"),
        f"{_OFFICE}.presentationml.slideshow",
        f"{_OFFICE}.presentationml.template",
        "application/vnd.ms-powerpoint.presentation.macroenabled.12",
        "application/vnd.ms-powerpoint.slideshow.macroenabled.12",
    ),
)
_EPUB = Format(mime="application/epub+zip", label="EPUB", aliases=("application/zip",))
_OPEN_DOCUMENTS = tuple(
    Format(
        mime=f"{_OPEN}.{name}", label=label, aliases=("application/zip", f"{_OPEN}.{name}-template")
    )
    for name, label in (
        ("text", "OpenDocument text"),
        ("presentation", "OpenDocument slides"),
        ("graphics", "OpenDocument drawing"),
    )
)
# the first part of these folders by its local header: 26 bytes of numbers between mark and name
_PART: Final = re.compile(
    rb"PK\x03\x04.{26}(?:(word[/\\](?:document|_rels|styles|settings|fontTable|theme|numbering))"
    rb"|(ppt[/\\](?:presentation|_rels|slides|slideMasters|slideLayouts|theme|presProps))"
    rb"|(xl[/\\])|(META-INF/container\.xml))",
    re.DOTALL,
)
_BY_GROUP: Final = {1: _WORD, 2: _POWER_POINT, 3: None, 4: _EPUB}


def _recognise(head: Head) -> Format | None:
    if not head.data.startswith(b"PK\x03\x04"):
        return None
    if head.data.startswith(b"mimetype", 30):
        # the first file, which is not packed, says what it is (OpenDocument part 2, 3.3; OCF 4.3)
        at = 38 + int.from_bytes(head.data[28:30], "little")
        for format in (_EPUB, *_OPEN_DOCUMENTS):
            told = format.mime.encode()
            if re.match(re.escape(told) + rb"(?:-template)?\s{0,2}PK", head.data[at : at + 100]):
                return format
    found = _PART.search(head.data)
    return _BY_GROUP[found.lastindex or 3] if found else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    parsed = parse("document", excerpt.all_data, size, label=format.label)
    title, author = parsed.text("title"), parsed.text("author")
    heading = [text for text in (title, f"by {author}" if author else "") if text]
    html = headed_lines(heading, parsed.texts("lines"), size, name=name)
    facts = tuple(
        count_of(int(number), unit) for number, unit in parsed.rows("counts") if number.isdecimal()
    )
    return Drawing(html=html, facts=facts)


KIND = Kind(
    name="document",
    formats=(_WORD, _POWER_POINT, *_OPEN_DOCUMENTS, _EPUB),
    draw=_draw,
    recognise=_recognise,
    limit=8 * MIB,
)
