"""Parses the bytes of a blob in the kernel's parser process, and draws the result."""

from __future__ import annotations

from dataclasses import asdict

from odps_nb.formats.drawing import (
    Drawing,
    Excerpt,
    encoded_url,
    headed,
    pictured,
    source_box,
    table_of,
)
from odps_nb.formats.kind import Format
from odps_nb.formats.shared import SOUNDS, Size
from odps_nb.html import SMALL, Html, data_url, element, scroller
from odps_nb.parsing.client import Parsed, Parser, at_exit
from odps_nb.terms import shorten

_parser = at_exit(Parser())


def parse(parser: str, data: bytes, size: Size, **options: object) -> Parsed:
    """Parse ``data`` with a parser from `parsers` or an installed package."""
    return _parser.parse(parser, data, {**options, "size": asdict(size)})


def draw_parsed(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Parse the excerpt with the parser for the format's kind, and draw the result."""
    parsed = parse(
        format.kind,
        excerpt.data,
        size,
        mime=format.mime,
        label=format.label,
        whole=excerpt.whole,
        length=max(excerpt.size or 0, len(excerpt.data)),
    )
    return draw_answer(parsed, size, name=name, room=excerpt.room)


def draw_answer(parsed: Parsed, size: Size, *, name: str, room: int = 0) -> Drawing:
    """Draw a parser's result, built with `shared.answer`.

    Sounds that have at most ``room`` bytes together can be played.
    """
    facts = tuple(shorten(fact, 60) for fact in parsed.texts("facts"))
    if "sounds" in parsed.found:
        html = players(parsed, size, name=name, room=room)
        return Drawing(html=html, facts=facts, note=parsed.text("note"))
    if parsed.data:
        source, alt = encoded_url(parsed.data), f"{name}, {' '.join(facts)}"
        return pictured(source, size, alt=alt, facts=facts, note=parsed.text("note"))

    def draw(below: Size) -> Html:
        head, label = parsed.texts("head"), f"content of {name}"
        if head:
            return table_of(head, parsed.rows("rows"), below, label=label)
        return source_box("\n".join(parsed.texts("lines")), below, label=label)

    html = headed(parsed.texts("heading"), draw, size)
    return Drawing(html=html, facts=facts, note=parsed.text("note"))


def players(parsed: Parsed, size: Size, *, name: str, room: int) -> Html:
    """List the sounds inside a file (see `parsers.strip.samples`), each with a player."""
    at, rows = 0, []
    for title, facts, mime, count in parsed.rows("sounds"):
        data = parsed.data[at : at + int(count)]
        at += len(data)
        attrs: dict[str, str | int | None] = {
            "controls": "",
            "preload": "none",
            "aria-label": title,
        }
        words = element("b", shorten(title, 60)), f" {shorten(facts, 60)}"
        rows.append(element("div", *words, style="margin:4px 0;overflow-wrap:anywhere"))
        if data and at <= room and mime in SOUNDS.values():
            attrs["src"] = data_url(mime, data)
            rows.append(element("audio", attributes=attrs, style="width:100%;height:32px"))
    style = f"padding:8px 10px;{SMALL}"
    listed = element("div", *rows, attributes={"dir": "auto"}, style=style)
    return scroller("div", listed, label=f"sounds inside {name}", style=size.box)
