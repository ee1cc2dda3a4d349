"""Mail messages (RFC 5322): sender, recipients, first lines, names and sizes of attachments."""

from __future__ import annotations

import re
from typing import Final

from odps_nb.formats.kind import FIRST, MIB, Format, Head, Kind
from odps_nb.formats.parsing import draw_parsed

_MESSAGE = Format("message/rfc822", "message", aliases=("text/plain", "application/mbox"))
# a header field with its continuation lines (RFC 5322, 2.2), or the first line of an mbox
_FIELD: Final = re.compile(rb"([!-9;-~]{1,60})[ \t]*:[^\n]{0,2000}\n(?:[ \t][^\n]{0,2000}\n){0,50}")
_MBOX: Final = re.compile(rb"From [^\n:]{1,200} [^\n]{10,60}\n")
_FIELDS: Final = 200
# sender fields, and fields that mail programs add, which distinguish messages from plain notes
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


KIND = Kind(
    name="message",
    formats=(_MESSAGE,),
    draw=draw_parsed,
    recognise=_recognise,
    precedence=FIRST,  # tried even for bytes that are not text: parts may have any encoding
    limit=8 * MIB,
)
