"""Shows instants in a time zone.

DATETIME and TIMESTAMP are instants; their Arrow form on the wire has no zone and counts from the
epoch in UTC. TIMESTAMP_NTZ is a local time without a zone, and stays as it is. Where a zone is
known, instants get it as their type, and their values stay.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.schema import ArrayType, Column, MapType, OdpsType, StructType, TableSchema, TypeCode

__all__ = ["INSTANTS", "in_zone", "zoned_type"]

INSTANTS = (TypeCode.DATETIME, TypeCode.TIMESTAMP)


def in_zone(batch: pa.RecordBatch, schema: TableSchema, timezone: str | None) -> pa.RecordBatch:
    """Return the batch with its instants in a zone; no value is copied or changed.

    Parameters
    ----------
    schema
        The columns of the batch, in its order or not.
    timezone
        ``None`` leaves the batch as it is.
    """
    if timezone is None:
        return batch
    columns: list[Column | None] = list(schema)
    if list(schema.names) != batch.schema.names:
        columns = [schema.find(name) for name in batch.schema.names]
    fields = [
        field if column is None else field.with_type(zoned_type(field.type, column.type, timezone))
        for field, column in zip(batch.schema, columns, strict=True)
    ]
    arrays = [
        array if array.type.equals(field.type) else array.cast(field.type)
        for array, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def zoned_type(came: pa.DataType, target: OdpsType, timezone: str) -> pa.DataType:
    """Return the Arrow type with its instants in a zone, nested ones as well.

    TIMESTAMP_NTZ, and types without timestamps, are returned unchanged.
    """
    if isinstance(target, ArrayType) and (pt.is_list(came) or pt.is_large_list(came)):
        inner = came.value_field
        made = pa.large_list if pt.is_large_list(came) else pa.list_
        return _or_same(came, made(_zoned_field(inner, target.element, timezone)))
    if isinstance(target, MapType) and pt.is_map(came):
        key = zoned_type(came.key_type, target.key, timezone)
        return _or_same(came, pa.map_(key, _zoned_field(came.item_field, target.value, timezone)))
    if isinstance(target, StructType) and pt.is_struct(came):
        types = {member.name.casefold(): member.type for member in target.fields}
        members = [
            field if (known := types.get(field.name.casefold())) is None
            else _zoned_field(field, known, timezone)
            for field in came
        ]  # fmt: skip
        return _or_same(came, pa.struct(members))
    if target.code in INSTANTS and pt.is_timestamp(came):
        return pa.timestamp(came.unit, timezone)
    return came


def _zoned_field(field: pa.Field, target: OdpsType, timezone: str) -> pa.Field:
    return field.with_type(zoned_type(field.type, target, timezone))


def _or_same(came: pa.DataType, made: pa.DataType) -> pa.DataType:
    return came if made.equals(came) else made
