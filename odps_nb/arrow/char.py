"""Adds and removes the trailing blanks of CHAR(n) values in Arrow arrays, even nested ones.

Dictionaries and string views must be converted first (`odps_nb.arrow.plain`). The service sends
CHAR(n) padded with blanks to n characters (``docs/types-and-times.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.arrow.leaves import columns_of, with_child
from odps_nb.schema import (
    ArrayType,
    Column,
    LengthType,
    MapType,
    OdpsType,
    StructType,
    TypeCode,
    has_any,
)

CharColumns = Sequence[tuple[int, OdpsType]]
"""Positions and types of the columns of a batch whose type is or contains CHAR."""

_Leaf = Callable[[pa.Array, LengthType], pa.Array]


def char_columns(names: Sequence[str], columns: Sequence[Column]) -> CharColumns:
    """Return the positions and types of the columns whose type is or contains CHAR."""
    numbered = enumerate(columns_of(names, columns))
    return [
        (n, column.type)
        for n, column in numbered
        if column and has_any(column.type, (TypeCode.CHAR,))
    ]


def stripped(batch: pa.RecordBatch, chars: CharColumns) -> pa.RecordBatch:
    """Return a batch without trailing blanks (U+0020) in its CHAR values.

    Positions beyond the batch's last column are ignored.
    """
    return _changed(batch, chars, _strip)


def padded(batch: pa.RecordBatch, chars: CharColumns) -> pa.RecordBatch:
    """Return a batch whose CHAR(n) values are padded with blanks to n characters."""
    return _changed(batch, chars, _pad)


def _changed(batch: pa.RecordBatch, chars: CharColumns, leaf: _Leaf) -> pa.RecordBatch:
    for position, odps in chars:
        if position < batch.num_columns:
            array = _each(batch.column(position), odps, leaf)
            batch = batch.set_column(position, batch.schema.field(position), array)
    return batch


def _each(array: pa.Array, odps: OdpsType, leaf: _Leaf) -> pa.Array:
    """Apply ``leaf`` to the CHAR values in an array; the type stays the same."""
    kind = array.type
    if not has_any(odps, (TypeCode.CHAR,)):
        return array
    if isinstance(odps, LengthType):
        return _each_text(array, odps, leaf)
    if isinstance(odps, ArrayType) and not pt.is_map(kind) and pt.is_nested(kind):
        return with_child(array, kind, _each(array.values, odps.element, leaf))
    if isinstance(odps, MapType) and pt.is_map(kind):
        pairs = [_each(array.keys, odps.key, leaf), _each(array.items, odps.value, leaf)]
        fields = [kind.key_field, kind.item_field]
        return with_child(array, kind, pa.StructArray.from_arrays(pairs, fields=fields))
    if isinstance(odps, StructType) and pt.is_struct(kind):
        types = {member.name.casefold(): member.type for member in odps.fields}
        members = []
        for number, field in enumerate(kind):
            known, member = types.get(field.name.casefold()), array.field(number)
            members.append(member if known is None else _each(member, known, leaf))
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    return array


def _each_text(array: pa.Array, odps: LengthType, leaf: _Leaf) -> pa.Array:
    kind = array.type
    if pt.is_string(kind) or pt.is_large_string(kind):
        return leaf(array, odps)
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        text = pa.string() if pt.is_binary(kind) else pa.large_string()
        return leaf(array.view(text), odps).view(kind)
    return array


def _strip(array: pa.Array, _odps: LengthType) -> pa.Array:
    # Trim bytes instead of text, because null slots may contain invalid UTF-8.
    has_blanks = pc.any(pc.ends_with(array, " ")).as_py()
    return pc.ascii_rtrim(array, " ") if has_blanks else array


def _pad(array: pa.Array, odps: LengthType) -> pa.Array:
    shortest = pc.min(pc.utf8_length(array)).as_py()
    is_short = shortest is not None and shortest < odps.length
    return pc.utf8_rpad(array, odps.length, " ") if is_short else array
