"""JSON and JSON Lines: a foldable tree without scripts, with limits on nodes, depth and text.

Lines with ``messages`` or ``conversations``, as in training data of chat models, are conversations.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from odps_nb.formats.drawing import Drawing, Excerpt
from odps_nb.formats.kind import TEXTS, TOO_LARGE, Format, Head, Kind, load_json, text_of
from odps_nb.formats.kinds import text
from odps_nb.formats.shared import Size
from odps_nb.html import LINE, MONO, MUTED, SMALL, Html, element, escape, join, scroller
from odps_nb.parsing.values import UnshowableError
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
_ENDINGS: Final = (".jsonl", ".ndjson")
_MOSTLY: Final = 0.9  # minimum share of lines that are JSON
_NODES: Final = 300
_DEPTH: Final = 12
_TEXT: Final = 160
_TURNS: Final = 20  # maximum turns of a conversation
_TURN: Final = 1_000  # characters
_ASKING: Final = ("user", "human")


class _Number(str):
    """A number as written in the file, because converting it might round it."""

    __slots__ = ()


def _recognise(head: Head) -> Format | None:
    if head.text.lstrip()[:1] not in ("{", "["):
        return None
    lines = [line for line in head.text.split("\n") if line.strip()]
    is_named = len(lines) == 1 and head.name.lower().endswith(_ENDINGS)
    if head.whole and _parses(head.text):
        return _LINES if is_named else _JSON
    cut = [] if head.whole else [lines.pop()]
    if len(lines) >= 2 and all(map(_parses, lines[:2])):
        valid = sum(map(_parses, lines))
        return _LINES if valid >= _MOSTLY * len(lines) else None
    if not cut or not _CUT.match(head.text):
        return None
    # a document ends with its first value, so a second value is another line
    is_next = len(lines) == 1 and _parses(lines[0]) and cut[0].lstrip()[0] in "{["
    return _LINES if is_named or is_next else _JSON


def _parses(text: str) -> bool:
    return load_json(text) is not None or text.strip() == "null"


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    source = text_of(excerpt, format)
    if format.label == _LINES.label:
        rows = [line for line in source.split("\n") if line.strip()]
        rows = rows if excerpt.whole else rows[:-1]  # the last line may be incomplete
        if not rows:
            raise UnshowableError(TOO_LARGE)
        fact = count_of(len(rows), "line") if excerpt.whole else "first lines"
        value: Any = [_load(row) if _parses(row) else row for row in rows[:_NODES]]
        value += rows[_NODES:]  # counted, but not shown
        if conversations := [turns for record in value[: size.rows] if (turns := _turns(record))]:
            body = join(map(_conversation, conversations))
            return Drawing(html=_box(body, size, name), facts=("conversations", fact))
    elif not excerpt.whole:
        raise UnshowableError(TOO_LARGE)
    else:
        value = _load(source.removeprefix("\ufeff"))
        fact = _summary(value)
    tree = _Tree()
    body = tree.node(value, None, 0)
    html = _box(element("div", body, style=MONO), size, name)
    return Drawing(html=html, facts=(fact,), note="the first nodes" if tree.cut else "")


def _box(body: Html, size: Size, name: str) -> Html:
    inner = element("div", body, style="padding:8px 10px;overflow-wrap:anywhere")
    return scroller("div", inner, label=f"content of {name}", style=size.box)


def _turns(record: Any) -> list[tuple[str, str]]:
    """Return the roles and texts of a conversation; an empty list if there are no messages."""
    fields = record if isinstance(record, dict) else {}
    messages = fields.get("messages") or fields.get("conversations")
    return [
        (
            str(message.get("role") or message.get("from") or ""),
            _said(message.get("content", message.get("value")))
            or "[tool calls]" * bool(message.get("tool_calls")),
        )
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, dict)
    ]


def _said(content: Any) -> str:
    if isinstance(content, list):  # parts, such as texts and pictures
        return "\n".join(map(_said, content))
    if isinstance(content, dict):
        return str(content.get("text") or f"[{content.get('type', 'part')}]")
    return "" if content is None else str(content)


def _conversation(turns: list[tuple[str, str]]) -> Html:
    parts = [
        element(
            "div",
            element("div", element("b", shorten(role, 40)), style=MUTED),
            element("div", shorten(text, _TURN), style="white-space:pre-wrap"),
            attributes={"dir": "auto"},
            style=f"margin:0 0 6px;padding-left:8px;border-left:3px solid {colour}",
        )
        for role, text in turns[:_TURNS]
        for colour in ["#3b82f6" if role in _ASKING else "rgba(128,128,128,0.5)"]
    ]
    if len(turns) > _TURNS:
        parts.append(element("div", f"… {len(turns) - _TURNS:,} more", style=MUTED))
    style = f"margin:0 0 10px;padding:0 0 6px;border-bottom:{LINE};overflow-wrap:anywhere;{SMALL}"
    return element("div", *parts, style=style)


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
    precedence=TEXTS + 20,
    limit=256 * 1024,
)
