"""Arrow IPC: column names, types and first rows as strings.

Offsets are validated before values are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.arrow.leaves import with_leaf_types, with_leaves
from odps_nb.convert.unreadable import check_unions
from odps_nb.errors import ConversionError
from odps_nb.formats.parsers.strip import samples
from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.reasons import DAMAGED, NOT_UTF8, reason_of
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of

_LONGEST: Final = 200
_NANOS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def first_rows(
    read: Callable[[bytes, Size], tuple[pa.RecordBatch, str]], data: bytes, options: dict[str, Any]
) -> tuple[dict[str, Any], bytes]:
    """Return the names, types and first rows of the batch that ``read`` returns."""
    size = Size(**options["size"])
    try:
        batch, count = read(data, size)
    except KeyError:  # pyarrow has no class for Arrow's month and day intervals
        why = "not decoded here: pyarrow does not support the type of a column"
        raise UnshowableError(why) from None
    except ConversionError as error:
        raise UnshowableError(error.message) from None
    # one more column than fits, so that the table can indicate omitted columns
    shown = batch.slice(0, size.rows).columns[: size.columns + 1]
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        reason = reason_of(error)
        prefix = "not decoded here" if reason == NOT_UTF8 else DAMAGED
        raise UnshowableError(f"{prefix}: {reason}") from None
    head = [f"{field.name[:_LONGEST]} · {field.type}" for field in batch.schema][: len(shown)]
    rows = zip(*(map(_value, _with_text(column)) for column in shown), strict=True)
    facts = (f"{count} × {count_of(len(batch.schema), 'column')}",)
    for name, values in _bytes_of(batch):
        sounds, data = samples(partial(iter, values), size)
        if data or sounds:
            what = "sounds" if sounds else "pictures"
            note = f"{what} of column {name[:_LONGEST]!r}; to_table() returns all columns"
            fields, _ = answer(facts, note=note)
            return {**fields, **sounds}, data
    return answer(facts, head=head, rows=rows)


def _bytes_of(batch: pa.RecordBatch) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Yield the binary columns, and those whose values contain a binary field, such as images.

    The name of a value is its field ``path``, which Hugging Face writes, or its row.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        inner = list(field.type) if pa.types.is_struct(field.type) else [field.with_name("")]
        has_path = any(child.name == "path" for child in inner)
        names = column.field("path").to_pylist() if has_path else [None] * len(column)
        for child in inner:
            if pa.types.is_binary(child.type) or pa.types.is_large_binary(child.type):
                values = (column.field(child.name) if child.name else column).to_pylist()
                named = enumerate(zip(names, values, strict=True))
                yield (
                    field.name,
                    [(str(name or f"row {at}"), data) for at, (name, data) in named if data],
                )


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def _with_text(column: pa.Array) -> pa.Array:
    """Convert times at every level to text: Python has no nanoseconds, and only years 1 to 9999."""
    kind = with_leaf_types(column.type, None, _text_type)
    if kind.equals(column.type):
        return column
    with contextlib.suppress(pa.ArrowException):  # e.g. an unknown time zone
        # a slice of lists still contains all of their values
        shown = column.take(pa.array(range(len(column))))
        return with_leaves(shown, kind, _times_as_text)
    return column


def _text_type(kind: pa.DataType, _: object) -> pa.DataType:
    return pa.string() if pa.types.is_temporal(kind) and not pa.types.is_interval(kind) else kind


def _times_as_text(array: pa.Array, text: pa.DataType) -> pa.Array:
    if not pa.types.is_duration(array.type):
        texts = pc.replace_substring_regex(array.cast(text), r"\.0+($|[Z+-])", r"\1")
        return pc.replace_substring_regex(texts, r"([+-]\d\d)(\d\d)$", r"\1:\2")
    unit = array.type.unit
    numbers = array.cast(pa.int64()).to_pylist()
    return pa.array([None if one is None else _duration(one, unit) for one in numbers], text)


def _duration(value: int, unit: str) -> str:
    micros, rest = divmod(value * _NANOS[unit], 1000)
    with contextlib.suppress(OverflowError):
        if not rest:
            return str(timedelta(microseconds=micros))
    return f"{value} {unit}"


def _value(value: Any) -> Any:
    with contextlib.suppress(ValueError, OverflowError):
        return value.as_py()
    try:
        return value.cast(pa.string())
    except pa.ArrowException:
        return f"<{value.type}>"


def _read(data: bytes, size: Size) -> tuple[pa.RecordBatch, str]:
    # a file contains a magic number (padded to 8 bytes), a stream, and a footer (not needed here)
    stream = pa.py_buffer(data)[8:] if data.startswith(b"ARROW1") else pa.py_buffer(data)
    rows, more = 0, ""
    with pa.ipc.open_stream(pa.BufferReader(stream)) as reader:
        check_unions(reader.schema)
        first = empty_batch(reader.schema)
        try:
            for batch in reader:
                first = first if rows else batch
                rows += batch.num_rows
        except (pa.ArrowException, OSError):  # truncated, or no end marker before a footer
            if not rows:
                raise
            more = "at least "
    return first, f"{more}{count_of(rows, 'row')}"


parse = partial(first_rows, _read)
