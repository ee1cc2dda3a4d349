"""Mail messages (RFC 5322): from whom, to whom, first lines, names and sizes of attachments."""

from __future__ import annotations

import re
from typing import Final

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, headed_lines
from odps_nb.notebook.preview.kind import FIRST, MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size
from odps_nb.terms import count_of, format_bytes

_MESSAGE = Format(
    mime="message/rfc822", label="message", aliases=("text/plain", "application/mbox")
)
# a field of the header, with the lines that continue it (RFC 5322, 2.2), or mbox's first line
_FIELD: Final = re.compile(rb"([!-9;-~]{1,60})[ \t]*:[^\n]{0,2000}\n(?:[ \t][^\n]{0,2000}\n){0,50}")
_MBOX: Final = re.compile(rb"From [^\n:]{1,200} [^\n]{10,60}\n")
_FIELDS: Final = 200
# a sender, and fields that mail programs add, which a list of notes does not have
_SENDERS: Final = frozenset((b"from", b"return-path", b"sender"))
_MARKS: Final = frozenset(
    (
        *(b"received", b"message-id", b"mime-version", b"content-type"),
        *(b"date", b"return-path", b"delivered-to"),
    )
)


def _recognise(head: Head) -> Format | None:
    mbox = _MBOX.match(head.data)
    at = mbox.end() if mbox else 0
    names: set[bytes] = set()
    for _ in range(_FIELDS):
        field = _FIELD.match(head.data, at)
        if field is None:
            break
        names.add(field[1].lower())
        at = field.end()
    ended = head.data.startswith((b"\n", b"\r\n"), at) or at >= len(head.data)
    known = names & _SENDERS and len(names & (_MARKS | {b"subject", b"to"})) >= 2
    return _MESSAGE if ended and known and names & _MARKS else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    whole = "yes" if excerpt.whole else "no"
    parsed = parse("message", excerpt.data, size, whole=whole)
    attached = [
        f"attached: {called or 'without a name'} · {format_bytes(int(length))}"
        for called, length in parsed.rows("attached")
        if length.isdecimal()
    ]
    lines = [*parsed.texts("fields"), *attached, "", *parsed.texts("lines")]
    subject = parsed.text("subject")
    html = headed_lines([subject] if subject else [], lines, size, name=name)
    facts = (count_of(parsed.number("count"), "attachment"),) if excerpt.whole else ()
    return Drawing(html=html, facts=facts)


KIND = Kind(
    name="message",
    formats=(_MESSAGE,),
    draw=_draw,
    recognise=_recognise,
    precedence=FIRST,  # most are text, but a part of a message may be of any encoding
    limit=8 * MIB,
)
