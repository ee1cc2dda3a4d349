"""Values and functions shared by previews and their parsers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any, Final, Literal

#: First bytes of an ASF file (WMA, WMV).
ASF: Final = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
#: GUID in the header of an ASF file with a video stream (ASF 1.2, 10.4).
ASF_FILM: Final = bytes.fromhex("c0ef19bc4d5bcf11a8fd00805f5c442b")

_INDENT: Final = "  "  # indentation of each level of a tree
_BREAK: Final = re.compile(r"\s+")
_LONGEST: Final = 400  # maximum characters of each string in a parser's result
_HIDDEN: Final = frozenset({"script", "style", "title"})
_CELLS: Final = frozenset({"td", "th"})
_LINES: Final = frozenset(
    {"br", "details", "div", "h1", "h2", "h3", "li", "p", "pre", "summary", "table", "tr"}
)

#: First bytes of the sounds that samples usually are, and their media types.
SOUNDS: Final = {
    b"fLaC": "audio/flac", b"OggS": "audio/ogg", b"RIFF": "audio/wav",
    b"ID3": "audio/mpeg", b"\xff\xfb": "audio/mpeg", b"\xff\xf3": "audio/mpeg",
}  # fmt: skip

#: Prefix of the error for a video or audio file that a browser may still play.
OTHER_CODEC: Final = "not decoded here: its codec is"

#: Error for a file in a video format without video, such as a voice recording of a browser.
ONLY_SOUND: Final = "it contains only sound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The space available to a preview."""

    #: ``tile`` (in a grid), ``row`` (with its caption beside it) or ``single``.
    layout: Literal["tile", "row", "single"]
    width: int  #: Maximum width of a picture in CSS pixels; likewise ``height``.
    height: int
    rows: int  #: Maximum rows of a table; likewise ``columns``.
    columns: int
    lines: int  #: Maximum lines of text.

    @property
    def box(self) -> str:
        """CSS height of a scrollable box; all tiles of a gallery have the same height."""
        return f"{'max-height' if self.layout == 'single' else 'height'}:{self.height}px"


GRID = Size(layout="tile", width=256, height=176, rows=7, columns=6, lines=14)
LIST = Size(layout="row", width=240, height=120, rows=4, columns=6, lines=8)
SINGLE = Size(layout="single", width=720, height=480, rows=20, columns=20, lines=60)


class Beginning(io.BytesIO):
    """The beginning of a file of ``length`` bytes."""

    def __init__(self, data: bytes, length: int) -> None:
        super().__init__(data)
        self._length = length

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset, counted from the end of the whole file for `io.SEEK_END`."""
        if whence == io.SEEK_END:
            return super().seek(self._length + offset)
        return super().seek(offset, whence)


def words(text: str) -> frozenset[str]:
    """Split a string into a set of words."""
    return frozenset(text.split())


def length_of(seconds: float) -> str:
    """Format a duration: ``1:02:03``, ``2:03``, or ``0.25 s``."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def answer(
    facts: Iterable[object] = (),
    picture: bytes = b"",
    *,
    note: str = "",
    heading: Iterable[object] = (),
    head: Iterable[object] = (),
    rows: Iterable[Iterable[object]] = (),
    lines: Iterable[object] = (),
) -> tuple[dict[str, Any], bytes]:
    """Return a parser's result for `parsing.draw_parsed`; truncate long strings.

    The picture is drawn if there is one, else the table of ``head`` and ``rows``, else ``lines``.
    A table or lines are drawn below the ``heading``.
    """
    texts = {"facts": facts, "heading": heading, "head": head, "lines": lines}
    fields: dict[str, Any] = {name: _cut(values) for name, values in texts.items()}
    return {**fields, "note": note, "rows": [_cut(row) for row in rows]}, picture


def _cut(values: Iterable[object]) -> list[str]:
    return [_text(value)[:_LONGEST] for value in values]


def _text(value: object) -> str:
    if value is None:
        return "null"
    return f"<{len(value)} B>" if isinstance(value, bytes) else str(value)


def markup_text(markup: str) -> str:
    """Extract the text of HTML, one line per block and table row, with tabs between cells."""
    reader = _MarkupText()
    reader.feed(markup)
    reader.close()
    lines = "".join(reader.parts).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip())


class _MarkupText(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = self._depth = self._cells = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in _HIDDEN
        self._depth += tag == "details"
        self._cells += tag in _CELLS
        if tag in _LINES:
            self.parts.append("\n" + _INDENT * (self._depth - (tag in ("details", "summary"))))

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN and self._hidden > 0
        self._depth -= tag == "details" and self._depth > 0
        if tag in _LINES:
            self.parts.append("\n")
        elif tag in _CELLS:
            self._cells -= self._cells > 0
            self.parts.append("\t")

    def handle_data(self, data: str) -> None:
        if not self._hidden:  # a cell is shown on one line
            self.parts.append(_BREAK.sub(" ", data) if self._cells else data)


def is_tar(head: bytes) -> bool:
    """Whether a tar file begins here: with its mark, or in older files, with a valid checksum."""
    if head.startswith(b"ustar", 257):
        return True
    block = head[:512]
    written = block[148:156].strip(b"\0 ")
    if len(block) < 512 or not written.isdigit() or set(written) & set(b"89"):
        return False
    return int(written, 8) == sum(block[:148]) + 8 * ord(" ") + sum(block[156:])
