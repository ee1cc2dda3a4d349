"""Formats rows as the service's CSV (``docs/protocol.md`` section 9.3)."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.arrow.leaves import with_leaf_types, with_leaves
from odps_nb.arrow.text import as_bytes
from odps_nb.schema import OdpsType


def csv_text(schema: pa.Schema, batches: list[pa.RecordBatch]) -> str:
    """Return rows as the service's CSV; bytes that are not UTF-8 become surrogates."""
    out = io.StringIO()
    out.write(",".join(map(_cell, schema.names)) + "\n")
    for batch in batches:
        columns = [_texts(batch.column(i)) for i in range(batch.num_columns)]
        for row in zip(*columns, strict=True):
            out.write(",".join(_cell(value) for value in row) + "\n")
    return out.getvalue()


def _cell(value: str | None) -> str:
    return "\\N" if value is None else '"' + value.replace('"', '""') + '"'


def _texts(array: pa.Array) -> list[str | None]:
    """Return values as text. Arrow formats times, because Python has no year 0 or nanoseconds."""
    array = with_leaves(array, with_leaf_types(array.type, None, _text_type), _times_as_text)
    values = array.view(as_bytes(array.type)).to_pylist()  # a STRING may contain any bytes
    if pt.is_nested(array.type):
        spell = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        return [None if v is None else spell(_plain(v, array.type)) for v in values]
    return [None if v is None else _text(v) for v in values]


def _text_type(kind: pa.DataType, _: OdpsType | None) -> pa.DataType:
    is_time = pt.is_timestamp(kind) or pt.is_date(kind) or pt.is_duration(kind)
    return pa.string() if is_time else kind


def _times_as_text(array: pa.Array, text: pa.DataType) -> pa.Array:
    """Format times. DATETIMEs, whose unit is milliseconds, have no fraction: pyodps parses them
    with ``%Y-%m-%d %H:%M:%S`` (``odps/types.py``, ``Datetime.cast_value``).
    """
    if pt.is_duration(array.type):
        return pa.array(map(_interval, array.view(pa.int64()).to_pylist()), text)
    is_datetime = pt.is_timestamp(array.type) and array.type.unit == "ms"
    return pc.replace_substring_regex(array.cast(text), r"\.\d+$" if is_datetime else r"\.0+$", "")


def _interval(nanos: int | None) -> str | None:
    """Format an interval as the Java SDK does (0.57.1, ``IntervalDayTime.toString``)."""
    if nanos is None:
        return None
    seconds, fraction = divmod(abs(nanos), 10**9)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    sign = "-" if nanos < 0 else ""
    return f"{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}.{fraction:09d}"


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Convert a nested value for JSON. A MAP becomes an object, and numbers remain numbers."""
    if value is None:
        return None
    if pt.is_map(kind):
        return {_text(key): _plain(item, kind.item_type) for key, item in value}
    if pt.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pt.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    return value if isinstance(value, (bool, int, float, str)) else _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
