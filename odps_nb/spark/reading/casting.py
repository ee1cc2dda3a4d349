"""Casts Arrow batches of a read session to the exact schema that Spark expects.

Spark takes a worker's batches by position and believes their types: two columns in another order
come back silently swapped. So everything is selected by name here and cast to the exact type.
Pure: Arrow in, Arrow out; no pyspark, no I/O.
"""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import ConversionError

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def select(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `schema`, by name (case does not matter) and in its exact types.

    Digits of a time below its target's unit are cut (towards the past); everything else that
    would change a value raises.

    Raises `ConversionError`.
    """
    if batch.schema.equals(schema):
        return batch
    where = {name.casefold(): index for index, name in enumerate(batch.schema.names)}
    columns = []
    for field in schema:
        index = where.get(field.name.casefold())
        if index is None:
            raise ConversionError(
                f"the stream has no column {field.name!r}",
                column=field.name,
                target_type=str(field.type),
                hint="the table has changed since the DataFrame was made: read it again",
            )
        array = cast_array(batch.column(index), field.type, column=field.name)
        if array.null_count and not field.nullable:
            raise ConversionError(
                f"column {field.name!r} is declared NOT NULL and holds nulls",
                column=field.name,
                target_type=str(field.type),
            )
        columns.append(array)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def cast_array(array: pa.Array, target: pa.DataType, *, column: str) -> pa.Array:
    """Return the same values in another type; see `select` for what is refused."""
    source = array.type
    if source.equals(target):
        return array
    try:
        if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
            return _rescaled(array, pa.timestamp(source.unit), pa.timestamp(target.unit)).view(
                target
            )
        if pa.types.is_duration(source) and pa.types.is_duration(target):
            return _rescaled(array, source, target)
        if pa.types.is_nested(source) and pa.types.is_nested(target):
            return _nested(array, target, column)
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
        raise ConversionError(
            f"column {column!r}: {error}",
            column=column,
            source_type=str(source),
            target_type=str(target),
        ) from None


def in_zone(table: pa.Table, timezone: str | None) -> pa.Table:
    """Convert timestamps with a zone to the zone that a table read returns.

    That is in the zone of the connection, or, without one, in UTC and named by no zone.
    """
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            unit = field.type.unit
            column = table.column(index).cast(pa.timestamp(unit, timezone or "UTC"))
            if timezone is None:
                column = column.cast(pa.timestamp(unit))
            table = table.set_column(index, field.name, column)
    return table


def _rescaled(array: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    """Change the time unit; one pass if no digit is lost, several to truncate."""
    try:
        return array.view(source).cast(target)
    except pa.ArrowInvalid:
        return _rescale(array, source.unit, target.unit).view(target)


def _rescale(array: pa.Array, source: str, target: str) -> pa.Array:
    """Return int64 counts of the target unit, rounded down where digits are lost."""
    counts = array.view(pa.int64())
    have, want = _PER_SECOND[source], _PER_SECOND[target]
    if want >= have:
        return counts if want == have else pc.multiply_checked(counts, want // have)
    # Arrow's integer division rounds to zero; before 1970 that would round up.
    step = have // want
    quotient = pc.divide(counts, step)
    lost = pc.subtract(counts, pc.multiply(quotient, step))
    return pc.subtract(quotient, pc.cast(pc.less(lost, 0), pa.int64()))


def _nested(array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    if array.offset:  # a slice: the buffers below must begin where the rows do
        array = array.take(pa.array(range(len(array)), pa.int64()))
    validity = array.buffers()[0] if array.null_count else None
    inner = functools.partial(cast_array, column=column)
    if pa.types.is_struct(target):
        children = [inner(_child(array, field.name), field.type) for field in target]
        return pa.Array.from_buffers(target, len(array), [validity], children=children)
    if pa.types.is_map(target):
        pairs = [inner(array.keys, target.key_type), inner(array.items, target.item_type)]
        entries = pa.StructArray.from_arrays(pairs, fields=[target.key_field, target.item_field])
        children, offsets = [entries], array.offsets
    else:
        if pa.types.is_fixed_size_list(array.type):
            return inner(array.cast(pa.list_(array.type.value_type)), target)
        children, offsets = [inner(array.values, target.value_type)], array.offsets
    starts = offsets.cast(pa.int32()).buffers()[1]
    return pa.Array.from_buffers(target, len(array), [validity, starts], children=children)


def _child(array: pa.StructArray, name: str) -> pa.Array:
    # `StructArray.field` ignores nulls of the struct itself; those are kept by its mask.
    for index, field in enumerate(array.type):
        if field.name.casefold() == name.casefold():
            return array.field(index)
    raise KeyError(f"no field {name!r} in {array.type}")
