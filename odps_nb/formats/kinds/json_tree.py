"""JSON and JSON Lines: a foldable tree without scripts, with limits on nodes, depth and text."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from odps_nb.formats.drawing import Drawing, Excerpt
from odps_nb.formats.kind import TEXTS, Format, Head, Kind, load_json, text_of
from odps_nb.formats.kinds import text
from odps_nb.formats.shared import Size
from odps_nb.html import MONO, Html, element, escape, join, scroller
from odps_nb.terms import count_of, shorten

_JSON = Format(
    "application/json",
    "JSON",
    aliases=("text/json", "application/geo+json", "application/ld+json", "text/plain"),
)
_LINES = Format(
    "application/x-ndjson",
    "JSON lines",
    aliases=("application/json", "application/jsonl", "application/x-jsonlines", "text/plain"),
)
# the start of truncated JSON: an object begins with a quoted key, an array with a value
_CUT = re.compile(r'\s*(?:\{\s*"(?:[^"\\]|\\.){0,500}"\s*:|\[\s*(?:[\[{"\d-]|true|false|null))')
_MOSTLY: Final = 0.9  # minimum share of lines that are JSON
_NODES: Final = 300
_DEPTH: Final = 12
_TEXT: Final = 160


class _Number(str):
    """A number as written in the file, because converting it might round it."""

    __slots__ = ()


def _recognise(head: Head) -> Format | None:
    if head.text.lstrip()[:1] not in ("{", "["):
        return None
    if head.whole and _parses(head.text):
        return _JSON
    lines = head.text.split("\n")
    lines = [line for line in lines if line.strip()][: None if head.whole else -1]
    if len(lines) >= 2 and all(map(_parses, lines[:2])):
        valid = sum(map(_parses, lines))
        return _LINES if valid >= _MOSTLY * len(lines) else None
    return _JSON if not head.whole and _CUT.match(head.text) else None


def _parses(text: str) -> bool:
    return load_json(text) is not None or text.strip() == "null"


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    source = text_of(excerpt, format)
    if format.label == _LINES.label:
        rows = [line for line in source.split("\n") if line.strip()]
        fact = count_of(len(rows), "line")
        value: Any = [_load(row) if _parses(row) else row for row in rows[:_NODES]]
    else:
        value = _load(source.removeprefix("\ufeff"))
        fact = _summary(value)
    tree = _Tree()
    body = tree.node(value, None, 0)
    inner = element("div", body, style=f"padding:8px 10px;{MONO}")
    box = scroller("div", inner, label=f"content of {name}", style=size.box)
    return Drawing(html=box, facts=(fact,), note="the first nodes" if tree.cut else "")


def _load(text: str) -> Any:
    return json.loads(text, parse_int=_Number, parse_float=_Number)


def _summary(value: Any) -> str:
    if isinstance(value, dict):
        return count_of(len(value), "key")
    if isinstance(value, list):
        return count_of(len(value), "item")
    return "one value"


class _Tree:
    """A JSON tree as HTML, limited to a maximum number of nodes."""

    def __init__(self) -> None:
        self._left = _NODES
        self.cut = False

    def node(self, value: Any, key: str | None, depth: int) -> Html:
        self._left -= 1
        label = Html("") if key is None else join((element("b", shorten(key, 80)), ": "))
        if not isinstance(value, (dict, list)) or not value:
            return element("div", label, _leaf(value), attributes={"dir": "auto"})
        if depth >= _DEPTH:
            self.cut = True
            return element("div", label, "…")
        head = element("summary", label, element("span", _summary(value), style="opacity:0.65"))
        body = element("div", *self._children(value, depth), style="margin:0 0 0 14px")
        shown = {"open": ""} if depth == 0 else {}
        return element("details", head, body, attributes=dict(shown))

    def _children(self, value: Any, depth: int) -> list[Html]:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        drawn: list[Html] = []
        for key, item in items:
            if self._left <= 0:
                self.cut = True
                drawn.append(escape(f"… {len(value) - len(drawn):,} more"))
                break
            drawn.append(self.node(item, str(key), depth + 1))
        return drawn


def _leaf(value: Any) -> Html:
    if isinstance(value, _Number):
        return element("span", shorten(value, 60), style="color:#3b82f6")
    if isinstance(value, str):
        return element("span", f"“{shorten(value, _TEXT)}”")
    return element("i", json.dumps(value), style="opacity:0.75")


KIND = Kind(
    name="json",
    formats=(_JSON, _LINES),
    draw=_draw,
    fallback=text.draw,
    recognise=_recognise,
    whole=True,
    precedence=TEXTS + 20,
    limit=256 * 1024,
)
