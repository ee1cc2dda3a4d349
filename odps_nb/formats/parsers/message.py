"""Mail messages: header fields, first lines of text, names and sizes of attachments."""

from __future__ import annotations

import contextlib
import email
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import Header, decode_header, make_header
from email.message import Message
from typing import Any, Final

from odps_nb.formats.parsers.xml_text import LINE_LENGTH, LINES
from odps_nb.formats.shared import answer, markup_text
from odps_nb.parsing.encodings import detect
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, format_bytes

_FIELDS: Final = ("From", "To", "Cc", "Date")
_LONGEST: Final = 300
_FIELD_READ: Final = 4000  # maximum characters of a field or name to decode
_TEXT_READ: Final = 256 << 10
_ATTACHED: Final = 50
_PARTS: Final = 1000


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return subject, fields and first lines, and the attachments of a complete message."""
    whole = options["whole"]
    try:
        message = email.message_from_bytes(data)
        parts = list(_leaves(message))
    except RecursionError:
        raise UnshowableError("its parts are nested too deeply: not read") from None
    attached = [part for part in parts if _is_attached(part)] if whole else []
    detected = detect(data)
    encoding = detected.name if detected else "utf-8"
    stated = [(name, _decoded(message.get(name, ""), encoding)) for name in _FIELDS]
    lines = [f"{name}: {text}" for name, text in stated if text]
    for part in attached[:_ATTACHED]:
        size = format_bytes(len(_payload(part)))
        lines.append(f"attached: {_name(part) or 'without a name'} · {size}")
    lines += ["", *_lines([part for part in parts if not _is_attached(part)], encoding)]
    facts = (count_of(len(attached), "attachment"),) if whole else ()
    subject = _decoded(message.get("Subject", ""), encoding)
    return answer(facts, heading=filter(None, [subject]), lines=lines)


def _leaves(message: Message) -> Iterator[Message]:
    """Yield the parts that have no subparts; an embedded message counts as one part."""
    waiting, seen = [message], 0
    while waiting and seen < _PARTS:
        part, seen = waiting.pop(), seen + 1
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            held = part.get_payload()
            inside = [child for child in held if isinstance(child, Message)]
            waiting += reversed(inside)
        else:
            yield part


def _is_attached(part: Message) -> bool:
    is_text = part.get_content_maintype() == "text"
    return not is_text or part.get_content_disposition() == "attachment"


def _name(part: Message) -> str:
    try:
        return _decoded(part.get_filename(""))
    except (ValueError, LookupError, TypeError):  # the parameter violates RFC 2231
        return ""


def _decoded(value: object, encoding: str = "utf-8") -> str:
    """Return a field on one line, with encoded words (RFC 2047) decoded if possible.

    ``encoding`` applies to bytes outside of ASCII (RFC 6532), which do not state their encoding.
    """
    if isinstance(value, Header):
        parts = (part for part, _ in decode_header(value))
        value = b"".join(part for part in parts if isinstance(part, bytes)).decode(
            encoding, "replace"
        )
    text = str(value)[:_FIELD_READ]
    with contextlib.suppress(
        HeaderParseError, ValueError, LookupError
    ):  # an invalid field stays unchanged
        text = str(make_header(decode_header(text)))
    return _plain(" ".join(text.split())[:_LONGEST])


def _payload(part: Message) -> bytes:
    """Return the decoded bytes of a part, or the source bytes if it is an embedded message."""
    if part.is_multipart():
        held = part.get_payload()
        return b"".join(child.as_bytes() for child in held if isinstance(child, Message))
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _lines(texts: list[Message], encoding: str) -> list[str]:
    """Return the first lines of the first plain-text part, or else of the first HTML part."""
    by_kind = {part.get_content_subtype(): part for part in reversed(texts)}
    part = by_kind.get("plain") or by_kind.get("html") or next(iter(by_kind.values()), None)
    if part is None:
        return []
    text = _text(_payload(part)[:_TEXT_READ], part.get_content_charset(encoding))
    if part.get_content_subtype() == "html":
        text = markup_text(text)
    lines = (line.rstrip()[:LINE_LENGTH] for line in text.splitlines())
    return [line for line in lines if line][:LINES]


def _text(data: bytes, charset: str) -> str:
    try:
        return _plain(data.decode(charset, "replace"))
    except (LookupError, ValueError):  # unknown encoding
        return data.decode("utf-8", "replace")


def _plain(text: str) -> str:
    """Return the text without lone surrogates, which cannot be encoded in a page."""
    return text.encode("utf-8", "replace").decode()
