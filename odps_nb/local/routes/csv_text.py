"""Formats rows as the service's CSV (``docs/protocol.md`` section 9.3)."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa

from odps_nb.arrow.text import as_bytes


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
    if pa.types.is_timestamp(array.type):
        return [None if v is None else _moment(v, array.type.unit) for v in array]
    if pa.types.is_date(array.type):  # Arrow supports the year 0; Python does not
        array = array.cast(pa.string())
    values = array.view(as_bytes(array.type)).to_pylist()  # a STRING may contain any bytes
    if pa.types.is_nested(array.type):
        spell = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        return [None if v is None else spell(_plain(v, array.type)) for v in values]
    return [None if v is None else _text(v) for v in values]


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Convert a nested value for JSON. A MAP becomes an object, and numbers remain numbers."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {_text(key): _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_timestamp(kind):
        return _moment(pa.scalar(value, kind), kind.unit)
    return value if isinstance(value, (bool, int, float, str)) else _text(value)


def _moment(value: pa.Scalar, unit: str) -> str | None:
    """Format a time. DATETIMEs, whose unit is milliseconds, have no fraction: pyodps parses them
    with ``%Y-%m-%d %H:%M:%S`` (``odps/types.py``, ``Datetime.cast_value``).
    """
    if not value.is_valid:
        return None
    text = str(value.cast(pa.string()))
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction}" if fraction.strip("0") and unit != "ms" else whole


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
