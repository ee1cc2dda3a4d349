"""Which text the bytes are: encoding, then SVG, HTML, XML, JSON, CSV, TSV or plain.

Pure and bounded: looks at the head only, decodes nothing but text.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from dataclasses import replace
from typing import Final

from odps_nb.notebook.preview.media_types import TEXT, Family, Kind

__all__ = ["decode", "sniff_text"]

_SVG = Kind(family=Family.SVG, mime="image/svg+xml", label="SVG", aliases=("image/svg",))
_HTML = Kind(
    family=Family.MARKUP, mime="text/html", label="HTML", aliases=("application/xhtml+xml",)
)
_XML = Kind(
    family=Family.MARKUP,
    mime="application/xml",
    label="XML",
    aliases=("text/xml", "application/rss+xml", "application/atom+xml", "application/xhtml+xml"),
)
_JSON = Kind(
    family=Family.JSON,
    mime="application/json",
    label="JSON",
    aliases=("text/json", "application/geo+json", "application/ld+json"),
)
_LINES = Kind(
    family=Family.JSON,
    mime="application/x-ndjson",
    label="JSON lines",
    aliases=("application/json", "application/jsonl", "application/x-jsonlines"),
)
_CSV = Kind(
    family=Family.TABLE,
    mime="text/csv",
    label="CSV",
    aliases=("application/csv", "application/vnd.ms-excel"),
)
_TSV = Kind(
    family=Family.TABLE,
    mime="text/tab-separated-values",
    label="TSV",
    aliases=("text/tsv", "text/csv"),
)

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
# what may stand before the root element; bounded repeats, so that no text makes this slow
_PROLOG = re.compile(
    r"\s*(?:(?:<\?[^>]{0,2000}\?>|<!--.{0,4000}?-->|<!DOCTYPE[^>\[]{0,2000}"
    r"(?:\[[^\]]{0,4000}\]\s*)?>)\s*){0,8}",
    re.IGNORECASE | re.DOTALL,
)
_HTML_START = re.compile(
    r"<(?:html|head|body|script|title|meta|link|style|iframe|img|div|span|table|form|center|h[1-6]"
    r"|ul|ol|p|a|b|br|svg:svg)[\s>/]",
    re.IGNORECASE,
)
_SVG_START = re.compile(r"<(?:svg|svg:svg)[\s>/]", re.IGNORECASE)
_LINES_TO_JUDGE: Final = 20


def decode(data: bytes, encoding: str, *, whole: bool) -> str:
    """Return ``data`` as text; a character that was cut at the end is dropped unless ``whole``.

    Raises
    ------
    UnicodeDecodeError
        When the bytes are not that encoding.
    """
    return codecs.getincrementaldecoder(encoding)("strict").decode(data, final=whole)


def sniff_text(head: bytes, *, whole: bool) -> Kind | None:
    """Return the kind of text, or ``None`` when the bytes are no text.

    Parameters
    ----------
    head
        The first bytes.
    whole
        Whether ``head`` is all there is.
    """
    encoding = next((name for bom, name in _BOMS if head.startswith(bom)), "utf-8")
    try:
        text = decode(head, encoding, whole=whole)
    except UnicodeDecodeError:
        return None
    if _CONTROLS.search(text):
        return None
    return replace(_sort(text, whole=whole), encoding=encoding)


def _sort(text: str, *, whole: bool) -> Kind:
    start = text[:16_384]
    markup = _markup(start)
    if markup is not None:
        return markup
    first = start.lstrip()[:1]
    if first in ("{", "["):
        kind = _json(text, whole=whole)
        if kind is not None:
            return kind
    return _table(start, whole=whole and len(text) == len(start)) or TEXT


def _markup(start: str) -> Kind | None:
    if not start.lstrip().startswith("<"):
        return None
    prolog = _PROLOG.match(start)
    end = prolog.end() if prolog else 0
    before = start[:end].lower()
    if _SVG_START.match(start, end):
        return _SVG
    if "<!doctype html" in before or _HTML_START.match(start, end):
        return _HTML
    if before.lstrip().startswith("<?xml"):
        return _XML
    return None


def _json(text: str, *, whole: bool) -> Kind | None:
    lines = [line for line in text.splitlines()[:_LINES_TO_JUDGE] if line.strip()]
    if whole and _parses(text):
        return _JSON
    if len(lines) >= 2 and lines[0].lstrip().startswith("{") and all(map(_parses, lines[:2])):
        return _LINES
    # only the head is here: an object begins with a quoted key, an array with a value
    cut = re.match(
        r'\s*(?:\{\s*"(?:[^"\\]|\\.){0,500}"\s*:|\[\s*(?:[\[{"\d-]|true|false|null))', text
    )
    return _JSON if cut and not whole else None


def _parses(text: str) -> bool:
    try:
        # numbers stay text: a number of a million digits costs nothing
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _table(start: str, *, whole: bool) -> Kind | None:
    lines = start.splitlines()[: _LINES_TO_JUDGE + 1]
    if not whole or len(lines) > _LINES_TO_JUDGE:
        lines = lines[:-1]
    lines = [line for line in lines if line.strip()]
    for kind, delimiter in ((_TSV, "\t"), (_CSV, ","), (_CSV, ";")):
        if _is_table(lines, delimiter):
            return replace(kind, delimiter=delimiter)
    return None


def _is_table(lines: list[str], delimiter: str) -> bool:
    """Whether the lines have the same number of cells: two columns need three rows to convince."""
    try:
        widths = {len(row) for row in csv.reader(lines, delimiter=delimiter)}
    except csv.Error:
        return False
    if len(widths) != 1:
        return False
    width = widths.pop()
    return width >= 2 and len(lines) >= (3 if width == 2 else 2)
