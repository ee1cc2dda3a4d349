"""Detects the separator and the beginning of the table in delimited text.

A preview tile and a conversion call the same function with the same leading characters, so both
find the same table. Hive text separates fields by ``\\x01`` and has no column names or quotes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

HIVE: Final = "\x01"
_SEPARATORS: Final = "\t,;|"
_CHARACTERS: Final = 16_384  # maximum number of characters to inspect
_LINES: Final = 20
_MOSTLY: Final = 0.8  # minimum share of lines with the same number of fields
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NAME: Final = re.compile(r"[^\W\d]\w{0,63}")
_RULE: Final = re.compile(r"[\s|:+-]+")  # the line below the header, as in Markdown

_Rows = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The field separator, and the offset of the header line."""

    separator: str
    start: int = 0


def form_of(text: str, *, whole: bool = True, separator: str = "") -> Form | None:
    """Return the separator and header offset; ``None`` if the text is not a table.

    Leading lines that begin with ``#`` are comments; the last one is the header if it has as many
    fields as the rows. If ``whole`` is false, the last line may be truncated. If ``separator`` is
    set, any text is considered a table.
    """
    if not separator and HIVE in text:  # unique to Hive text, see `odps_nb.parsing.encodings`
        separator = HIVE
    if separator == HIVE:
        return Form(separator=HIVE)
    sample = text[:_CHARACTERS]
    whole = whole and len(sample) == len(text)
    start, comment = _comments(sample)
    for strict in (True, False):
        for one in separator or _candidates(sample, start):
            rows = _rows(sample[start:], one, whole=whole)
            if separator or _is_table(rows, one, strict=strict):
                return Form(separator=one, start=_names_at(sample, start, comment, rows, one))
    rows = _rows(sample[start:], ",", whole=whole)
    return Form(separator=",", start=start) if _is_column(rows) else None


def lines_of(text: str, form: Form) -> Iterator[tuple[int, list[str]]]:
    """Yield each line's number and fields, beginning with the header.

    Skips blank lines, and comments: lines that begin with ``#`` and have a different number of
    fields than the first line. Raises `ValueError` for a field that is too long, and for an
    unclosed quote.
    """
    file = io.StringIO(text[form.start :], newline="")
    reader = csv.reader(
        file,
        delimiter=form.separator,
        quoting=csv.QUOTE_NONE if form.separator == HIVE else csv.QUOTE_MINIMAL,
    )
    before, width = text.count("\n", 0, form.start), 0
    try:
        for row in reader:
            blank = not row or (width > 1 and len(row) == 1 and not row[0].strip())
            if blank or (width and len(row) != width and row[0].startswith("#")):
                continue
            width = width or len(row)
            yield before + reader.line_num, row
    except csv.Error as error:
        raise ValueError(str(error)) from None


def unevenness(number: int, fields: int, names: int) -> str:
    """Return a sentence about a line with more or fewer fields than the first line."""
    have = f"{fields:,} field" if fields == 1 else f"{fields:,} fields"
    return f"line {number:,} has {have}, but the first line has {names:,}"


def _comments(sample: str) -> tuple[int, int]:
    """Return two offsets: the end of the leading comments, and the start of the last comment."""
    at = last = 0
    while sample.startswith("#", at):
        end = sample.find("\n", at)
        if end < 0:
            return 0, 0
        last, at = at, end + 1
    return at, last


def _candidates(sample: str, start: int) -> str:
    """Return the possible separators, ordered by frequency in the first line."""
    end = sample.find("\n", start)
    line = sample[start : end if end >= 0 else len(sample)]
    return "".join(sorted(_SEPARATORS, key=lambda one: -line.count(one)))


def _rows(sample: str, separator: str, *, whole: bool) -> _Rows:
    """Return the first lines; drop the last one if it may be truncated."""
    try:
        reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator)
        rows = list(islice(reader, _LINES + 1))
    except csv.Error:
        return []
    if not whole or len(rows) > _LINES:
        rows = rows[:-1]
    return [row for row in rows if any(cell.strip() for cell in row) or len(row) > 1]


def _is_table(rows: _Rows, separator: str, *, strict: bool) -> bool:
    """Whether all or most lines have the same number of fields; two columns require three lines."""
    if not rows or (separator == "|" and _is_drawn(rows)):
        return False
    width = len(rows[0])
    even = [row for row in rows if len(row) == width]
    if strict:
        return len(even) == len(rows) and width >= 2 and len(rows) >= (3 if width == 2 else 2)
    others = [row for row in rows if len(row) != width and not row[0].startswith("#")]
    if width == 2 and others:
        return False
    return width >= 2 and len(even) >= 4 and len(even) >= _MOSTLY * (len(even) + len(others))


def _is_drawn(rows: _Rows) -> bool:
    """Whether ``|`` draws the borders of a table, as in Markdown."""
    return all(not row[0] for row in rows) or any(_RULE.fullmatch("|".join(row)) for row in rows)


def _is_column(rows: _Rows) -> bool:
    """Whether the lines form one column: a name, then at least two numbers."""
    if len(rows) < 3 or any(len(row) != 1 for row in rows):
        return False
    (name,), *values = rows
    return bool(_NAME.fullmatch(name)) and all(_NUMBER.fullmatch(one.strip()) for (one,) in values)


def _names_at(sample: str, start: int, comment: int, rows: _Rows, separator: str) -> int:
    """Return the header's offset: after the last comment's ``#`` if the comment is the header."""
    if start == comment or not rows:
        return start
    line = sample[comment:start].rstrip("\r\n")
    names = line.lstrip("#").lstrip()
    count = len(names.split(separator))
    if count < 2 or count != len(rows[0]) or " " in names:  # an ordinary comment
        return start
    return start - len(sample[comment:start]) + len(line) - len(names)
