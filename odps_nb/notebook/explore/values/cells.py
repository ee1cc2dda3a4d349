"""Formats Arrow columns as text for a grid; the text is not escaped."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.access.blobs.paths import map_blobs
from odps_nb.arrow.leaves import with_leaf_types, with_leaves
from odps_nb.schema import (
    ArrayType,
    Column,
    MapType,
    OdpsType,
    StructType,
    TypeCode,
    VectorType,
    has_blob,
)
from odps_nb.type_facts import TYPE_FACTS
from odps_nb.wire.type_text import format_type

_FRACTION = re.compile(r"\.(\d+)")
_OFFSET = re.compile(r"([+-]\d\d)(\d\d)$")
SHOWN_BYTES = 32
"""Number of bytes of a binary value that a cell shows."""
_NOT_COUNTED = re.compile(r"(^|_)(id|year)$", re.IGNORECASE)
_NUMBER = re.compile(r"(-?)(\d+)((?:\.\d+)?)")


class Cut(str):
    """A truncated string."""

    __slots__ = ()


def kind_of(column: Column) -> str:
    """Return the name of the kind that determines how the column's values are compared."""
    return TYPE_FACTS[column.type.code].kind


def is_number(column: Column) -> bool:
    """Whether the column is numeric; its cells are then right-aligned."""
    return kind_of(column) in ("INTEGER", "FLOAT", "DOUBLE", "DECIMAL")


def has_separators(column: Column) -> bool:
    """Whether a grid shows thousands separators: in columns of numbers, except ids and years."""
    return is_number(column) and _NOT_COUNTED.search(column.name) is None


def separated(text: str) -> str:
    """Add thousands separators to a number; other text, such as ``1e+20``, stays unchanged."""
    match = _NUMBER.fullmatch(text)
    return text if match is None else f"{match[1]}{int(match[2]):,}{match[3]}"


def type_label(column: Column, timezone: str | None) -> str:
    """Return a column's SQL type, with the time zone in which its times are shown."""
    text = format_type(column.type)
    return f"{text}, {timezone or 'UTC'}" if kind_of(column) == "INSTANT" else text


def cell_texts(array: pa.Array | pa.ChunkedArray, column: Column, limit: int) -> list[str | None]:
    """Return the cells as strings or ``None``.

    Strings longer than ``limit``, except BLOB references, are truncated (`Cut`).
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if column.type.code is TypeCode.BLOB:
        return [None if value is None else str(value) for value in array.to_pylist()]
    if pt.is_nested(array.type):
        return [_cut(text, limit) for text in _nested(array, column)]
    if pt.is_binary(array.type) or pt.is_large_binary(array.type):
        return [_cut(bytes_text(value), limit) for value in array.to_pylist()]
    if pt.is_string(array.type) or pt.is_large_string(array.type):
        heads = pc.utf8_slice_codeunits(array, 0, limit + 1)
        return [_cut(text, limit) for text in heads.to_pylist()]
    texts = _cast(array)
    if pt.is_timestamp(array.type):
        return _same_fraction(texts)
    return [_cut(text, limit) for text in texts]


def nested_text(
    value: Any,
    column: Column,
    *,
    indent: int | None = None,
    as_text: Callable[[bytes], str | None] | None = None,
) -> str:
    """Return a nested value as JSON, with ``<blob>`` in place of each BLOB.

    ``as_text`` converts binary values to text. The default text is the first bytes and the size.
    """
    if has_blob(column.type):
        value = map_blobs(value, column.type, lambda leaf, _: None if leaf is None else "<blob>")
    plain = _plain(value, column.type, as_text or bytes_text)
    return json.dumps(plain, ensure_ascii=False, default=str, indent=indent)


def _cut(text: str | None, limit: int) -> str | None:
    return text if text is None or len(text) <= limit else Cut(text[:limit])


def _nested(array: pa.Array, column: Column) -> list[str | None]:
    values = nested_values(array)
    return [None if value is None else nested_text(value, column) for value in values]


def nested_values(array: pa.Array) -> Iterator[Any]:
    """Yield nested values as Python objects; their times as text if Python cannot hold them."""
    for row, cell in enumerate(array):
        try:
            value = cell.as_py()
        except (ValueError, OverflowError):  # a time outside the range of Python's datetime
            kind = with_leaf_types(array.type, None, _text_of_time)
            one = array.take(pa.array([row]))
            value = with_leaves(one, kind, _with_offset)[0].as_py()
        yield value


def _text_of_time(received: pa.DataType, _: object) -> pa.DataType:
    return pa.string() if pt.is_timestamp(received) or pt.is_date(received) else received


def _with_offset(times: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.replace_substring(times.cast(kind), "Z", "+00:00")  # as Python writes UTC


def _plain(value: Any, odps: OdpsType | None, as_text: Callable[[bytes], str | None]) -> Any:
    """Convert a value for JSON: the pairs of a MAP to an object, bytes to text."""
    if isinstance(odps, MapType) and value is not None:
        pairs = value.items() if isinstance(value, dict) else value
        return {
            str(_plain(key, odps.key, as_text)): _plain(item, odps.value, as_text)
            for key, item in pairs
        }
    if isinstance(value, dict):
        members = odps.fields if isinstance(odps, StructType) else ()
        kinds = {member.name.lower(): member.type for member in members}
        return {str(k): _plain(item, kinds.get(k.lower()), as_text) for k, item in value.items()}
    if isinstance(value, list):
        element = odps.element if isinstance(odps, (ArrayType, VectorType)) else None
        return [_plain(item, element, as_text) for item in value]
    if isinstance(value, bytes):
        return as_text(value)
    if isinstance(value, float) and odps is not None and odps.code is TypeCode.FLOAT:
        return float(str(np.float32(value)))  # 0.1, not the double 0.10000000149011612
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return f"{value:f}" if isinstance(value, Decimal) else value


def bytes_text(value: bytes | None) -> str | None:
    """Return the first bytes of a binary value in hexadecimal, and its size."""
    if value is None:
        return None
    more = "…" if len(value) > SHOWN_BYTES else ""
    return f"0x{value[:SHOWN_BYTES].hex()}{more} ({len(value):,} B)"


def _cast(array: pa.Array) -> list[str | None]:
    if pt.is_decimal(array.type):  # Arrow would write 0E-18
        return [None if value is None else f"{value:f}" for value in array.to_pylist()]
    try:
        texts: Sequence[Any] = array.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = [None if value is None else str(value) for value in array.to_pylist()]
    return list(texts)


def _same_fraction(texts: list[str | None]) -> list[str | None]:
    """Shorten all times to the same number of fractional digits, without losing precision."""
    matches = [_FRACTION.search(text) for text in texts if text is not None]
    needed = max((len(match[1].rstrip("0")) for match in matches if match), default=0)

    def shorter(match: re.Match[str]) -> str:
        return f".{match[1][:needed]}" if needed else ""

    return [
        None if text is None else _OFFSET.sub(r"\1:\2", _FRACTION.sub(shorter, text))
        for text in texts
    ]
