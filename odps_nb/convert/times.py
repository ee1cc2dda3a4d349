"""Adds the time zone to the Arrow type of instants.

DATETIME and TIMESTAMP are instants. On the wire, their Arrow type has no time zone, and their
values are counted from the epoch in UTC. If the time zone is known, it is added to the Arrow type;
the values stay the same. TIMESTAMP_NTZ is a local time without a zone, and is not changed.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.arrow.leaves import columns_of, with_leaf_types
from odps_nb.schema import OdpsType, TableSchema, TypeCode

INSTANTS = (TypeCode.DATETIME, TypeCode.TIMESTAMP)


def in_zone(batch: pa.RecordBatch, schema: TableSchema, timezone: str | None) -> pa.RecordBatch:
    """Return the batch with its instants in a time zone, without copying values."""
    if timezone is None:
        return batch
    fields = [
        field if column is None else field.with_type(zoned_type(field.type, column.type, timezone))
        for field, column in zip(
            batch.schema, columns_of(batch.schema.names, list(schema)), strict=True
        )
    ]
    arrays = [array.cast(field.type) for array, field in zip(batch.columns, fields, strict=True)]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def zoned_type(received: pa.DataType, target: OdpsType, timezone: str) -> pa.DataType:
    """Add a time zone to the instants in an Arrow type, including nested ones.

    TIMESTAMP_NTZ, and types without timestamps, are returned unchanged.
    """

    def zoned(leaf: pa.DataType, odps: OdpsType | None) -> pa.DataType:
        is_instant = odps is not None and odps.code in INSTANTS and pt.is_timestamp(leaf)
        return pa.timestamp(leaf.unit, timezone) if is_instant else leaf

    return with_leaf_types(received, target, zoned)
