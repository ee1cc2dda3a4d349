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
from odps_nb.formats.shared import Size
from odps_nb.html import Html
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
    return draw_answer(parsed, size, name=name)


def draw_answer(parsed: Parsed, size: Size, *, name: str) -> Drawing:
    """Draw a parser's result, built with `shared.answer`."""
    facts = tuple(shorten(fact, 60) for fact in parsed.texts("facts"))
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
