"""Documents (Word, PowerPoint, OpenDocument, EPUB): title, author, first lines, counts.

They are ZIP files with XML inside (ECMA-376 part 2, OpenDocument 1.3 part 2, EPUB 3.3). Only the
required parts are decompressed, up to `MAX_UNPACKED` bytes in total; links are never followed.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator, Set
from typing import Any, Final
from urllib.parse import unquote

from odps_nb.formats.parsers.xml_text import LINES, WantedXml, XmlContent, read_xml
from odps_nb.formats.shared import answer, words
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of

#: Maximum decompressed bytes of all parts of one document.
MAX_UNPACKED: Final = 16 << 20
_CHUNK: Final = 64 << 10
_PARTS: Final = 64  # maximum slides or sections to open for text
_LINKS: Final = WantedXml(elements=words("Relationship"))
_WORDS: Final = WantedXml(paragraphs=words("p"), texts=words("t"))
_TITLES: Final = words("title creator")
_Read = tuple[XmlContent, list[str]]


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the title, author and first lines, and the counts as facts."""
    read = _READERS.get(options["label"], _open_slides)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content, facts = read(_Parts(archive))
    title, author = (content.values.get(name, "") for name in ("title", "creator"))
    heading = [text for text in (title, f"by {author}" if author else "") if text]
    return answer(facts, heading=heading, lines=content.lines or ("no text",))


class _Parts:
    """The parts of a document by name; one limit applies to all decompressed bytes together."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        # names are case-insensitive (OPC), and some programs write backslashes
        self._infos = {_key(info.filename): info for info in archive.infolist()}
        self._left = MAX_UNPACKED

    def __contains__(self, name: str) -> bool:
        return _key(name) in self._infos

    def check(self, main: str) -> None:
        """Raise `UnshowableError` if the main part is missing."""
        if main not in self:
            raise UnshowableError("its main part is missing")

    def read(self, name: str, wanted: WantedXml, *, lines: int = LINES) -> XmlContent:
        """Return the content of a part; empty if the part does not exist."""
        return read_xml(self._chunks(name), wanted, lines=lines) if name in self else XmlContent()

    def read_about(self, name: str, wanted: WantedXml) -> XmlContent:
        """Return the content of an optional part; empty if it is damaged."""
        try:
            return self.read(name, wanted)
        except UnshowableError:
            return XmlContent()

    def _chunks(self, name: str) -> Iterator[bytes]:
        with self._archive.open(self._infos[_key(name)]) as part:
            while chunk := part.read(_CHUNK):
                self._left -= len(chunk)
                if self._left < 0:
                    raise UnshowableError("its decompressed size is above 16 MiB: not read")
                yield chunk

    def links(self, part: str) -> list[tuple[str, str, str]]:
        """Return the id, last word of the type, and target of each relationship of a part."""
        folder, name = posixpath.split(part)
        held = self.read(posixpath.join(folder, "_rels", f"{name}.rels"), _LINKS)
        return [
            (
                link.get("Id", ""),
                link.get("Type", "").rpartition("/")[2],
                _joined(folder, link.get("Target", "")),
            )
            for _, link in held.elements
            if link.get("TargetMode") != "External"
        ]


def _key(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").lower()


def _joined(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")


def _word(parts: _Parts) -> _Read:
    main, content, stated = _office(parts, "word/document.xml")
    content.lines = parts.read(main, _WORDS).lines
    names = {"Pages": "page", "Paragraphs": "paragraph", "Words": "word"}
    return content, _counts(stated, names)[:2]


def _power_point(parts: _Parts) -> _Read:
    main, content, _ = _office(parts, "ppt/presentation.xml")
    slides = parts.read(main, WantedXml(elements=words("sldId"))).elements
    targets = {name: target for name, _, target in parts.links(main)}
    # slides have the attributes `id` and `r:id`; `read_xml` returns the second one as `id`
    ordered = [targets[slide["id"]] for _, slide in slides if slide.get("id") in targets]
    content.lines = _lines_of(parts, ordered, _WORDS)
    return content, [count_of(len(slides), "slide")]


def _office(parts: _Parts, usual: str) -> tuple[str, XmlContent, dict[str, str]]:
    """Return the name of the main part, the title and author, and the counts stated in the file."""
    targets = {kind: target for _, kind, target in parts.links("")}
    main = targets.get("officeDocument", usual)
    parts.check(main)
    about = targets.get("core-properties", "docProps/core.xml")
    content = parts.read_about(about, WantedXml(values=_TITLES))
    counted = WantedXml(values=words("Pages Paragraphs Words"))
    counting = targets.get("extended-properties", "docProps/app.xml")
    stated = parts.read_about(counting, counted).values
    return main, content, stated


def _open_document(parts: _Parts, slides: Set[str] = frozenset()) -> _Read:
    parts.check("content.xml")
    manifest = parts.read("META-INF/manifest.xml", WantedXml(elements=words("encryption-data")))
    if manifest.elements:
        raise UnshowableError("it is password-protected")
    statistic = WantedXml(values=_TITLES, elements=words("document-statistic"))
    about = parts.read_about("meta.xml", statistic)
    stated = {name: text for _, attributes in about.elements for name, text in attributes.items()}
    content = parts.read("content.xml", WantedXml(paragraphs=words("p h"), counted=slides))
    about.lines = content.lines
    if content.counts["page"]:
        return about, [count_of(content.counts["page"], "slide")]
    names = {"page-count": "page", "paragraph-count": "paragraph"}
    return about, _counts(stated, names)


def _open_slides(parts: _Parts) -> _Read:
    return _open_document(parts, words("page"))


def _epub(parts: _Parts) -> _Read:
    container = parts.read("META-INF/container.xml", WantedXml(elements=words("rootfile")))
    package = next((root.get("full-path", "") for _, root in container.elements), "")
    parts.check(package)
    content = parts.read(package, WantedXml(values=_TITLES, elements=words("item itemref")))
    items = {
        item.get("id"): item.get("href", "") for tag, item in content.elements if tag == "item"
    }
    spine = [ref.get("idref") for tag, ref in content.elements if tag == "itemref"]
    folder = posixpath.dirname(package)
    ordered = [_joined(folder, unquote(items[ref])) for ref in spine if ref in items]
    page = WantedXml(paragraphs=words("p h1 h2 h3 h4 h5 h6 li blockquote"))
    content.lines = _lines_of(parts, ordered, page)
    return content, [count_of(len(spine), "section")]


def _lines_of(parts: _Parts, names: list[str], wanted: WantedXml) -> list[str]:
    """Return the first lines of the parts, in order."""
    lines: list[str] = []
    for name in names[:_PARTS]:
        if len(lines) >= LINES:
            break
        lines += parts.read(name, wanted, lines=LINES - len(lines)).lines
    return lines


def _counts(stated: dict[str, str], units: dict[str, str]) -> list[str]:
    """Return a document's stated lengths (pages, words, …), ignoring invalid numbers."""
    pairs = ((stated.get(name, ""), unit) for name, unit in units.items())
    return [
        count_of(int(text), unit)
        for text, unit in pairs
        if text.isascii() and text.isdigit() and len(text) < 12 and int(text) > 0
    ]


_READERS: Final = {
    "Word": _word,
    "PowerPoint": _power_point,
    "EPUB": _epub,
    "OpenDocument text": _open_document,
}
