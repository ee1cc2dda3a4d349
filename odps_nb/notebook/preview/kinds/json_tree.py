"""JSON as a tree that folds without a script. Bounded in nodes, depth and text."""

from __future__ import annotations

import json
from typing import Any, Final

from odps_nb.notebook.display.html import MONO, Html, element, escape, join, scroller
from odps_nb.notebook.preview.kinds.drawing import (
    Drawing,
    Excerpt,
    Size,
    UnshowableError,
    clip,
    count_of,
)
from odps_nb.notebook.preview.kinds.text import draw as draw_text
from odps_nb.notebook.preview.kinds.text import text_of
from odps_nb.notebook.preview.media_types import Kind

__all__ = ["draw"]

_NODES: Final = 300
_DEPTH: Final = 12
_TEXT: Final = 160


class _Number(str):
    """A number as it was spelled: nothing is rounded, nothing is computed."""

    __slots__ = ()


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw the tree, its first level open; only the head of a large file, as text."""
    if not excerpt.whole:
        return draw_text(excerpt, kind, size, name=name)
    value, facts = _parse(text_of(excerpt, kind), lines=kind.label == "JSON lines")
    tree = _Tree()
    body = tree.node(value, None, 0)
    inner = element("div", body, style=f"padding:8px 10px;{MONO}")
    box = scroller("div", inner, label=f"content of {name}", style=size.box)
    return Drawing(html=box, facts=(facts,), note="the first nodes" if tree.cut else "")


def _parse(text: str, *, lines: bool) -> tuple[Any, str]:
    def load(part: str) -> Any:
        return json.loads(part, parse_int=_Number, parse_float=_Number)

    try:
        if lines:
            rows = [line for line in text.splitlines() if line.strip()]
            return [load(row) for row in rows[:_NODES]], count_of(len(rows), "line")
        value = load(text.removeprefix("\ufeff"))
    except RecursionError:
        raise UnshowableError("nested too deeply") from None
    except ValueError as error:
        raise UnshowableError(f"not JSON: {error}") from None
    return value, _summary(value)


def _summary(value: Any) -> str:
    if isinstance(value, dict):
        return count_of(len(value), "key")
    if isinstance(value, list):
        return count_of(len(value), "item")
    return "one value"


class _Tree:
    """Draws nodes until the allowance is spent."""

    def __init__(self) -> None:
        self._left = _NODES
        self.cut = False

    def node(self, value: Any, key: str | None, depth: int) -> Html:
        self._left -= 1
        label = Html("") if key is None else join((element("b", clip(key, 80)), ": "))
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
        return element("span", clip(value, 60), style="color:#3b82f6")
    if isinstance(value, str):
        return element("span", f"“{clip(value, _TEXT)}”")
    return element("i", json.dumps(value), style="opacity:0.75")
