"""Extracts text from untrusted XML without building a tree, for `document`.

Files with an internal DTD, which could declare entities, are refused. No other file is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from odps_nb.formats.shared import words
from odps_nb.parsing.values import UnshowableError

#: Maximum number of text lines to collect, and of characters per line.
LINES: Final = 80
LINE_LENGTH: Final = 400
_DEPTH: Final = 1000
_ELEMENTS: Final = 20_000
#: Elements with invisible text: fallbacks, comments, notes, deleted text, code.
_HIDDEN: Final = words("Fallback annotation notes tracked-changes script style head")
#: Elements that represent white space.
_SPACES: Final = words("tab br cr s line-break")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedXml:
    """The content to read from an XML file; element names are local names."""

    paragraphs: Set[str] = frozenset()  #: Elements that become lines of text.
    texts: Set[str] = frozenset()  #: If not empty, only text inside these elements is read.
    values: Set[str] = frozenset()  #: Elements whose text is a value, such as ``title``.
    elements: Set[str] = frozenset()  #: Elements whose attributes are returned.
    #: Elements to count. If not empty, reading does not stop after `LINES` lines.
    counted: Set[str] = frozenset()


@dataclass(slots=True)
class XmlContent:
    """The content read: lines, first value of each name, attributes by local name, and counts."""

    lines: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class _EnoughError(Exception):
    """Stops the parser."""


def read_xml(chunks: Iterable[bytes], wanted: WantedXml, *, lines: int = LINES) -> XmlContent:
    """Return the wanted content of an XML file, with at most ``lines`` lines of text."""
    reader = _Reader(wanted, lines)
    try:
        with suppress(_EnoughError):
            for chunk in chunks:
                reader.parser.Parse(chunk, False)
            reader.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise UnshowableError(f"its XML is not well-formed: {error}") from None
    return reader.content


class _Reader:
    """A collector of the wanted content, called by expat."""

    def __init__(self, wanted: WantedXml, lines: int) -> None:
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        parser.SkippedEntityHandler = lambda *_: self._text(" ")
        self.content = XmlContent()
        self._wanted, self._lines = wanted, lines
        self._open: list[str] = []
        self._hidden = self._texts = self._paragraphs = 0
        self._line: list[str] = []
        self._value: list[str] | None = None
        self._length = 0

    def _doctype(self, name: str, system: str | None, public: str | None, internal: object) -> None:
        if internal:
            # only an internal DTD can declare entities
            raise UnshowableError("its XML has an internal DTD: not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local, wanted = _local(name), self._wanted
        self._open.append(local)
        if len(self._open) > _DEPTH:
            raise UnshowableError(f"its XML is nested more than {_DEPTH:,} levels deep: not read")
        self._hidden += local in _HIDDEN
        self._texts += local in wanted.texts
        if local in wanted.paragraphs:
            self._end_line()
            self._paragraphs += 1
        if local in wanted.elements and len(self.content.elements) < _ELEMENTS:
            # of two attributes with the same local name, prefer the one with a namespace
            ordered = sorted(attributes, key=lambda key: " " in key)
            named = {_local(key): attributes[key] for key in ordered}
            self.content.elements.append((local, named))
        if local in wanted.counted:
            self.content.counts[local] += 1
        if local in wanted.values and local not in self.content.values:
            self._value, self._length = [], 0
        if local in _SPACES and self._paragraphs:
            self._line.append(" ")

    def _end(self, name: str) -> None:
        local, wanted = self._open.pop(), self._wanted
        self._hidden -= local in _HIDDEN
        self._texts -= local in wanted.texts
        if local in wanted.paragraphs:
            self._end_line()
            self._paragraphs -= 1
        if local in wanted.values and self._value is not None:
            self.content.values.setdefault(local, _one_line(self._value))
            self._value, self._length = None, 0

    def _text(self, text: str) -> None:
        if self._length >= LINE_LENGTH * 4:
            return
        if self._value is not None:
            self._value.append(text)
        elif self._paragraphs and not self._hidden and (self._texts or not self._wanted.texts):
            self._line.append(text)
        else:
            return
        self._length += len(text)

    def _end_line(self) -> None:
        line = _one_line(self._line)
        self._line, self._length = [], 0
        if not line or len(self.content.lines) >= self._lines:
            return
        self.content.lines.append(line)
        if len(self.content.lines) >= self._lines and not self._wanted.counted:
            raise _EnoughError


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _one_line(parts: list[str]) -> str:
    return " ".join("".join(parts)[: LINE_LENGTH * 8].split())[:LINE_LENGTH]
