"""Small tables that commands return: sequences of tuples, displayed as HTML in a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from odps_nb.access.displayed import Displayed
from odps_nb.html import bundle, escape
from odps_nb.terms import no_item, shorten

MAX_ROWS = 1000
MAX_CELL = 300

_CELL = "padding:3px 10px;text-align:left;vertical-align:top"
_SHORT = ";white-space:nowrap"
_SHORT_CHARACTERS = 28
_NUMBER = re.compile(r"[\d,]+(\.\d+)?( [kMGTP]?B)?")
_RULE = "border-bottom:1px solid rgba(127,127,127,.35)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Displayed):
    """Rows with headers; ``empty`` is shown if there are no rows."""

    headers: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str = ""
    empty: str = "nothing found"

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        try:
            return self.rows[index]
        except IndexError:
            raise no_item("row", index, len(self)) from None

    def __repr__(self) -> str:
        return self.text()

    def text(self) -> str:
        """Return the table as plain text with aligned columns."""
        if not self.rows:
            return "\n".join(line for line in (self.caption, self.empty) if line)
        table = [self.headers, *(tuple(_cell(v) for v in row) for row in self.rows[:MAX_ROWS])]
        widths = [max(len(row[i]) for row in table) for i in range(len(self.headers))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        return "\n".join(line for line in (self.caption, *lines, self._rest()) if line)

    def html(self) -> str:
        """Return the table as escaped HTML in the page's colours."""
        caption = f"<div>{escape(self.caption)}</div>" if self.caption else ""
        if not self.rows:
            return f"{caption}<div>{escape(self.empty)}</div>"
        styles = [_CELL + _aligned(column) for column in zip(*self.rows, strict=True)]
        head = "".join(
            f'<th scope="col" style="{style};{_RULE}">{escape(h)}</th>'
            for h, style in zip(self.headers, styles, strict=True)
        )
        body = "".join(
            "<tr>" + "".join(map(_table_cell, row, styles)) + "</tr>"
            for row in self.rows[:MAX_ROWS]
        )
        parts = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        table = f'<table style="border-collapse:collapse">{parts}</table>'
        rest = f"<div>{escape(self._rest())}</div>" if self._rest() else ""
        return f"<div>{caption}{table}{rest}</div>"

    def _static_page(self) -> dict[str, str]:
        return bundle(self.html(), self.text())

    def _rest(self) -> str:
        more = len(self.rows) - MAX_ROWS
        return f"… and {more:,} more" if more > 0 else ""


def _cell(value: object) -> str:
    """Return a value as one line of bounded length without control characters."""
    text = "" if value is None else str(value)
    shown = "".join(c if c.isprintable() else " " for c in text[: MAX_CELL + 1])
    return shorten(shown, MAX_CELL)


def _table_cell(value: object, style: str) -> str:
    text = _cell(value)
    short = _SHORT if len(text) <= _SHORT_CHARACTERS else ""
    return f'<td style="{style}{short}">{escape(text)}</td>'


def _aligned(column: Iterable[object]) -> str:
    """Return the style that right-aligns a column of numbers or sizes; ``""`` for others."""
    texts = [text for text in map(_cell, column) if text]
    if texts and all(map(_NUMBER.fullmatch, texts)):
        return ";text-align:right;font-variant-numeric:tabular-nums"
    return ""
