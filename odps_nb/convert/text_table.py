"""Reads delimited text and JSON lines as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import ConversionError, LimitExceededError
from odps_nb.parsing.delimited import (
    BLANKS,
    HIVE,
    Form,
    body_of,
    form_of,
    lines_of,
    open_quote,
    unevenness,
)

_BLOCK = 16 << 20  # bytes per CSV block, and the maximum length of a row
_MAX_COLUMNS = 10_000  # each column needs a few KiB, even if its values are small


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTextOptions:
    """How to read text as a table; see `odps_nb.access.blob.Blob.to_table`."""

    separator: str | None = None
    header: bool | None = None
    names: Sequence[str] | None = None
    ragged: bool = False
    file_name: str = ""

    def has_header(self, separator: str) -> bool:
        """Whether the first line names the columns."""
        if self.header is None:
            return self.names is None and separator != HIVE
        return self.header


def delimited_table(text: str, head: str, default: str, options: TableTextOptions) -> pa.Table:
    """Return the rows of a text; its format is detected in ``head``, its beginning."""
    form = form_of(
        head,
        whole=len(head) == len(text),
        separator=options.separator or "",
        file_name=options.file_name,
    ) or Form(separator=default)
    if not options.ragged and (number := open_quote(text, form)):
        raise ConversionError(
            f"the text ends inside the quoted field that begins in line {number:,}",
            target_type="table",
            hint="check whether the text is truncated; if its quotes are ordinary characters, use"
            " pandas.read_csv(blob.open(seek=True), quoting=3); ragged=True reads it as it is",
        )
    rest = body_of(text, form)
    line = rest[: len(rest) if (end := _line_end(rest)) < 0 else end]
    _require_columns(line.count(form.separator) + 1)
    try:
        if form.separator == BLANKS:  # several blanks are one separator
            raise pa.ArrowInvalid("CSV parse error")
        rows = _read_csv(rest, form.separator, options)
    except pa.ArrowInvalid as error:
        if "CSV parse error" not in str(error) or form.separator == HIVE:
            raise
        rows = _read_csv(_even(text, form, options), ",", options)
    return rows


def json_table(text: str) -> pa.Table:
    """Return one row per line; the values of an array are columns ``f0``, ``f1``, …."""
    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ConversionError(
                f"line {number:,} is not JSON: {error}", target_type="table", hint=_JSON_HINT
            ) from None
        if value is None:
            value = {}
        elif not isinstance(value, dict):
            values = value if isinstance(value, list) else [value]
            value = {f"f{at}": item for at, item in enumerate(values)}
        rows.append(value)
        names.update(dict.fromkeys(value))
        _require_columns(len(names))
    return pa.table({name: _json_column(name, [row.get(name) for row in rows]) for name in names})


_JSON_HINT = "use blob.to_text(), and parse its lines"


def _json_column(name: str, values: list[Any]) -> pa.Array:
    try:
        array = pa.array(values)
        if _numbers_of_booleans(values, array.type):
            raise pa.ArrowTypeError("Expected float, got bool")
        return array
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError) as error:
        reason = "have different types"
        if isinstance(error, OverflowError):
            reason = "include a whole number above 64 bits"
        elif isinstance(error, UnicodeEncodeError):
            reason = "include a character that is not valid Unicode"
        raise ConversionError(
            f"the values of {name!r} {reason}: {error}",
            column=name,
            target_type="table",
            hint=_JSON_HINT,
        ) from None


def _numbers_of_booleans(values: list[Any], kind: pa.DataType) -> bool:
    """Whether Arrow has converted booleans among floats to 0.0 and 1.0."""
    present = [value for value in values if value is not None]
    if pa.types.is_list(kind):
        return _numbers_of_booleans([item for value in present for item in value], kind.value_type)
    if pa.types.is_struct(kind):
        return any(
            _numbers_of_booleans([value.get(field.name) for value in present], field.type)
            for field in kind
        )
    return pa.types.is_floating(kind) and any(isinstance(value, bool) for value in present)


def _read_csv(text: str, separator: str, options: TableTextOptions) -> pa.Table:
    from pyarrow import csv as fast_csv

    hive = separator == HIVE  # Hive text has no quoting, and uses \N for nulls
    has_header = options.has_header(separator)
    if options.names is not None:
        _check_names(text, separator, options.names)

    def read(types: dict[str, pa.DataType]) -> pa.Table:
        return fast_csv.read_csv(
            pa.BufferReader(text.encode()),
            read_options=fast_csv.ReadOptions(
                block_size=_BLOCK,
                column_names=options.names,
                autogenerate_column_names=options.names is None and not has_header,
                skip_rows_after_names=int(options.names is not None and has_header),
            ),
            parse_options=fast_csv.ParseOptions(
                delimiter=separator, newlines_in_values=not hive, quote_char=False if hive else '"'
            ),
            convert_options=fast_csv.ConvertOptions(
                null_values=["\\N"] if hive else None,
                strings_can_be_null=hive or bool(types),
                column_types=types,
            ),
        )

    return _with_all_digits(read({}), read)


def _with_all_digits(
    rows: pa.Table, read: Callable[[dict[str, pa.DataType]], pa.Table]
) -> pa.Table:
    """Return large whole numbers as text, because a DOUBLE would round them.

    They need more than 64 bits, or have a sign ``+``, which the parser accepts only in a DOUBLE.
    """
    large = [
        at
        for at, column in enumerate(rows.columns)
        if column.type == pa.float64() and pc.any(pc.greater_equal(pc.abs(column), 2.0**53)).as_py()
    ]
    if not large:
        return rows
    names = rows.column_names
    texts = read({names[at]: pa.string() for at in large})
    for at in large:
        if pc.all(pc.match_substring_regex(texts.column(at), r"^\s*[+-]?\d+\s*$")).as_py():
            rows = rows.set_column(at, texts.field(at), texts.column(at))
    return rows


def _check_names(text: str, separator: str, names: Sequence[str]) -> None:
    _, first = next(lines_of(text, Form(separator=separator)), (1, [""]))
    if len(first) != len(names):
        raise ConversionError(
            f"names= has {len(names):,} names, but the first line has {len(first):,} fields",
            target_type="table",
            hint="pass one name for each field, or separator= if another character separates them",
        )


def _even(text: str, form: Form, options: TableTextOptions) -> str:
    """Return the rows as CSV without comments; if ``ragged``, pad all lines to the same width."""
    first, width = 0, 0
    for number, row in lines_of(text, form):
        first, width = first or len(row), max(width, len(row))
        if len(row) != first and not options.ragged:
            raise ConversionError(
                f"the text cannot be read as a table: {unevenness(number, len(row), first)}",
                target_type="table",
                hint="pass ragged=True to fill short lines and to add columns for long ones, or"
                " separator= if another character separates the fields",
            )
    _require_columns(width)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    has_header = options.has_header(form.separator)
    for at, (_, row) in enumerate(lines_of(text, form)):
        is_names = not at and has_header
        writer.writerow(row + [f"f{n}" if is_names else "" for n in range(len(row), width)])
    return out.getvalue()


def _require_columns(columns: int) -> None:
    if columns > _MAX_COLUMNS:
        raise LimitExceededError(
            f"a line has {columns:,} columns; the maximum is {_MAX_COLUMNS:,}",
            limit=_MAX_COLUMNS,
            actual=columns,
            hint="read blob.open(seek=True) with another library",
        )


def _line_end(text: str) -> int:
    """Return the offset of the first line break; the CSV parser also accepts a lone ``\\r``."""
    return min((at for sign in "\n\r" if (at := text.find(sign)) >= 0), default=-1)
