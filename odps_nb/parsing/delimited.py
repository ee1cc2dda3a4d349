"""Detects the separator and the beginning of the table in delimited text.

A preview tile and a conversion call the same function with the same leading characters, so both
find the same table. Hive text separates fields by ``\\x01`` and has no column names or quotes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePath
from typing import Any, Final

HIVE: Final = "\x01"
BLANKS: Final = " "
"""Separator that stands for any number of blanks and tabs."""
_SEPARATORS: Final = "\t,;|"  # if several separators fit equally well, the first one is used
#: Separators to accept with weaker evidence, by the ending of the file's name.
_NAMED: Final = {".tsv": "\t", ".tab": "\t", ".csv": ",;\t|", ".psv": "|"}
_NAMED_SHARE: Final = 0.6  # minimum share of lines with these separators
_QUICK: Final = 10  # rows that usually show that a text is not a table
_MOSTLY: Final = 0.8  # minimum share of lines with the same number of fields
_PAIRS: Final = 0.95  # minimum share if lines have two fields: prose often has one comma
_NUMBERS: Final = 0.75  # minimum quality of fields separated by blanks, to exclude prose
_TRAILING: Final = re.compile(r"(?<![ \t])[ \t]++(?=\r?$)", re.MULTILINE)
_JUDGED: Final = 200  # rows whose fields are examined
_NUMBER: Final = re.compile(r"[+-]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?")
#: Numbers, dates, times, and marks for a missing value.
_VALUE: Final = re.compile(
    r"\s*(?:[+-]?[$€]?[\d.,]*\d[.,]?(?:[eE][+-]?\d+)?\s?%?|\d[\d/:.,TZ +-]*"
    r"|n/?a|nan|null|none|true|false)\s*",
    re.IGNORECASE,
)
_BYTE: Final = re.compile(r" ?0x[0-9a-fA-F]{1,2}")
_NAME: Final = re.compile(r"[^\W\d]\w{0,63}")
#: First line that states the separator, for Excel.
_STATED: Final = re.compile(r'"?sep=([^\w\s"]|\t)"?\r?\n', re.IGNORECASE)
_RULE: Final = re.compile(r"[\s|:+-]+")  # the line below the header, as in Markdown
#: The first lines of a log, with times as Python's ``logging`` and Log4j write them.
_LOG: Final = re.compile(r"(?:[^,\n]*\d\d:\d\d:\d\d,\d{3}[^\d,\n][^\n]*+\n){2}")
_BRACKETS: Final = ("()", "[]", "{}")

_Rows = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The field separator, and the offset of the header line.

    With ``row_names``, as written by R, the first column has no name in the header.
    """

    separator: str
    start: int = 0
    row_names: bool = False


def form_of(
    head: str, *, whole: bool = True, separator: str = "", file_name: str = ""
) -> Form | None:
    """Return the separator and header offset; ``None`` if the text is not a table.

    The decision uses all lines of ``head``, the first characters of the text. Leading lines that
    begin with ``#`` are comments. The last comment is the header if it has as many fields as the
    rows, and the first row is not a header itself.

    Parameters
    ----------
    whole
        Whether ``head`` is the whole text; if not, its last line may be truncated.
    separator
        The separator, if known; any text is then a table.
    file_name
        If it ends in ``.tsv`` or ``.csv``, weaker evidence of a table is sufficient.
    """
    start, comment = _comments(head)
    if stated := _STATED.match(head):
        separator, start, comment = separator or stated[1], stated.end(), stated.end()
    elif not separator and HIVE in head:  # unique to Hive text, see `odps_nb.parsing.encodings`
        separator = HIVE
    if separator == HIVE:
        return Form(separator=HIVE)
    body = head[start:]
    form: Form | None = Form(separator=separator)
    if separator:
        rows = _rows(body, separator, whole=whole)
    else:
        form, rows = _detected(body, PurePath(file_name.lower()).suffix, whole=whole)
    if form is None:
        return None
    names = start if form.row_names else _names_at(head, start, comment, rows, form.separator)
    return replace(form, start=names)


def _detected(body: str, suffix: str, *, whole: bool) -> tuple[Form | None, _Rows]:
    """Return the form that fits the lines best, and its rows."""
    is_log = _LOG.match(body) is not None
    for separators, is_named in ((_SEPARATORS, False), (_NAMED.get(suffix, ""), True)):
        candidates = []
        for separator in separators.replace(",", "") if is_log else separators:
            rows = _rows(body, separator, whole=whole)
            row_names = _has_row_names(rows)
            if share := 1 if row_names else _share(rows, separator, is_named=is_named):
                form = Form(separator=separator, row_names=row_names)
                candidates.append((_rank(rows, separator, share), form, rows))
        if candidates:
            return max(candidates, key=lambda candidate: candidate[0])[1:]
    if is_log:
        return None, []
    if _is_column(body, whole=whole):
        return Form(separator=","), []
    rows = _rows(body, BLANKS, whole=whole)
    is_table = len(rows) > 2 and _share(rows, BLANKS) == 1 and _quality(rows, BLANKS) >= _NUMBERS
    return (Form(separator=BLANKS) if is_table else None), rows


def body_of(text: str, form: Form) -> str:
    """Return the text from its header line on, with a name for each column."""
    body = text[form.start :]
    if form.separator == BLANKS:
        body = _without_tabs(body)
    return f"f0{form.separator}{body}" if form.row_names else body


def lines_of(text: str, form: Form) -> Iterator[tuple[int, list[str]]]:
    """Yield each line's number and fields, beginning with the header.

    Skips blank lines, and comments: lines that begin with ``#`` and have a different number of
    fields than the first line. Several blanks between fields are one separator. Raises `ValueError`
    for a field that is too long.
    """
    reader = _reader(body_of(text, form), form.separator)
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


def open_quote(text: str, form: Form) -> int:
    """Return the line number of a quoted field that is not closed; 0 if there is none."""
    if form.separator == HIVE or text.count('"', form.start) % 2 == 0:
        return 0
    # a quote at the beginning of a field, and the field's closing quote
    field = rf'(?<![^\r\n{re.escape(form.separator)}])"(?:[^"]|"")*+("?)'
    starts = (match.start() for match in re.finditer(field, text[form.start :]) if not match[1])
    at = next(starts, None)
    return 0 if at is None else text.count("\n", 0, form.start + at) + 1


def may_be_row(first: list[str], second: list[str]) -> bool:
    """Whether the first line has numbers where the second has numbers, so may not be a header."""
    fields = zip(first, second, strict=False)
    numbers = [_NUMBER.fullmatch(a.strip()) for a, b in fields if _NUMBER.fullmatch(b.strip())]
    return bool(numbers) and all(numbers)


def _reader(text: str, separator: str) -> Any:
    return csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_NONE if separator == HIVE else csv.QUOTE_MINIMAL,
        skipinitialspace=separator == BLANKS,
    )


def _without_tabs(text: str) -> str:
    return _TRAILING.sub("", text).replace("\t", " ")


def _comments(head: str) -> tuple[int, int]:
    """Return two offsets: the end of the leading comments, and the start of the last comment."""
    at = last = 0
    while head.startswith("#", at):
        end = head.find("\n", at)
        if end < 0:
            return 0, 0
        last, at = at, end + 1
    return at, last


def _rows(body: str, separator: str, *, whole: bool) -> _Rows:
    """Return the rows without blank lines; drop the last one if it may be truncated.

    Return no rows if the separator is not in the first line.
    """
    first = body.lstrip("\r\n ").partition("\n")[0]
    if separator not in first and first.count('"') % 2 == 0:  # else a quoted name has a line break
        return []
    try:
        reader = _reader(_without_tabs(body) if separator == BLANKS else body, separator)
        rows = list(islice(reader, _QUICK))
        if len(rows) == _QUICK and len({len(row) for row in rows}) > _QUICK // 2:
            return []  # prose or code; not worth parsing the rest
        rows += reader
    except csv.Error:
        return []
    if not whole:
        rows = rows[:-1]
    return [row for row in rows if any(cell.strip() for cell in row) or len(row) > 1]


def _share(rows: _Rows, separator: str, *, is_named: bool = False) -> float:
    """Return the share of lines with as many fields as the first line; 0 if this is no table.

    Two columns require three lines. Comments do not count. If ``is_named``, the file's name states
    the separator, so it is enough that most lines contain it.
    """
    width = len(rows[0]) if rows else 0
    if width < 2 or (separator == "|" and _is_drawn(rows)) or _is_code(rows):
        return 0
    if is_named:
        counted = [len(row) > 1 for row in rows if len(row) > 1 or not row[0].startswith("#")]
        share = sum(counted) / len(counted)
        return share if share >= _NAMED_SHARE else 0
    even = sum(len(row) == width for row in rows)
    odd = sum(len(row) != width and not row[0].startswith("#") for row in rows)
    share = even / (even + odd)
    if even == len(rows):
        return share if len(rows) >= (3 if width == 2 else 2) else 0
    return share if even >= 4 and share >= (_PAIRS if width == 2 else _MOSTLY) else 0


def _has_row_names(rows: _Rows) -> bool:
    """Whether all rows have one field more than the header, and some have a value in the last."""
    if len(rows) < 3 or len(rows[0]) < 2 or {len(row) for row in rows[1:]} != {len(rows[0]) + 1}:
        return False
    return any(row[-1].strip() for row in rows[1:]) and not _is_code(rows)


def _is_drawn(rows: _Rows) -> bool:
    """Whether ``|`` draws the borders of a table, as in Markdown."""
    return all(not row[0] for row in rows) or any(_RULE.fullmatch("|".join(row)) for row in rows)


def _is_code(rows: _Rows) -> bool:
    """Whether the fields look like code: brackets are not balanced, or separators end the lines."""
    judged = rows[:_JUDGED]
    is_ended = not any(row[-1].strip() for row in judged[:-1] if len(row) > 1)
    if is_ended and (len(rows[0]) == 2 or all(map(_BYTE.fullmatch, judged[0][:-1]))):
        return True
    cut = sum(
        row[0].startswith("(")
        or any(cell.count(a) != cell.count(b) for cell in row for a, b in _BRACKETS)
        for row in judged
    )
    return cut * 2 >= len(judged)


def _rank(rows: _Rows, separator: str, share: float) -> float:
    """Return how well a separator fits; a tab on every line is almost never part of a field."""
    return share * _quality(rows, separator) + (separator == "\t" and share == 1)


def _quality(rows: _Rows, separator: str) -> float:
    """Return how much the fields look like values: 1 for numbers, 0.5 for text.

    A field that contains another separator, except a comma, counts against this separator.
    """
    others = [sign for sign in _SEPARATORS if sign not in (separator, ",")]
    cells = [cell for row in rows[:_JUDGED] for cell in row if cell.strip()]
    good = 0.0
    for cell in cells:
        if _is_value(cell):
            good += 1
        elif not any(sign in cell for sign in others):
            good += 0.5
    return good / max(len(cells), 1)


def _is_value(cell: str) -> bool:
    return bool(_VALUE.fullmatch(cell, 0, 64))  # longer cells would take quadratic time


def _is_column(body: str, *, whole: bool) -> bool:
    """Whether the lines form one column: a name, then at least two numbers."""
    name = body.partition("\n")[0].rstrip("\r")
    if not _NAME.fullmatch(name.strip('"')):
        return False
    values = [line.strip('" \r') for line in body.split("\n")[1 : None if whole else -1]]
    values = [value for value in values if value]
    return len(values) >= 2 and all(map(_NUMBER.fullmatch, values))


def _names_at(head: str, start: int, comment: int, rows: _Rows, separator: str) -> int:
    """Return the header's offset: after the last comment's ``#`` if the comment is the header."""
    if start == comment or not rows:
        return start
    line = head[comment:start].rstrip("\r\n")
    names = line.lstrip("#").lstrip(" ")
    fields: list[str] = next(_reader(names, separator), [])
    if len(fields) < 2 or len(fields) != len(rows[0]):
        return start  # an ordinary comment
    first, second = rows[0], rows[1] if len(rows) > 1 else []
    numbers = list(map(_is_value, first))
    if not any(numbers):
        # names above numbers, or two fields of prose above text
        is_header = any(map(_is_value, second))
        if is_header or (len(fields) == 2 and " " in names):
            return start
    return comment + len(line) - len(names)
