"""The Arrow types of the tunnel's streams, which contain no schema (``docs/protocol.md`` 9.4).

They are the types of a write, with one exception: in a query's result, top-level columns of the
types TIMESTAMP and TIMESTAMP_NTZ have the type ``struct<sec: int64, nano: int32>`` (pyodps:
``tunnel/io/types.py``, and ``timestamp_as_struct`` of ``tunnel/io/reader.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from odps_nb.arrow.leaves import with_leaves
from odps_nb.arrow.types import SECONDS_AND_NANOS, arrow_type
from odps_nb.errors import ConversionError
from odps_nb.schema import Column, TypeCode

_TIMES = (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)


def tunnel_schema(columns: Iterable[Column], *, of_result: bool = False) -> pa.Schema:
    """Return the Arrow schema of a stream with these columns, in the same order.

    Examples
    --------
    >>> from odps_nb.wire.type_text import parse_columns
    >>> tunnel_schema(parse_columns("t timestamp"), of_result=True).field("t").type
    StructType(struct<sec: int64, nano: int32>)
    """
    return pa.schema(
        pa.field(
            column.name,
            SECONDS_AND_NANOS
            if of_result and column.type.code in _TIMES
            else arrow_type(column.type, for_write=True),
            nullable=column.nullable,
        )
        for column in columns
    )


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def seconds_and_nanos(array: pa.Array) -> pa.Array:
    """Return times or durations as structs of seconds and non-negative nanoseconds."""
    unit, nulls = _PER_SECOND[array.type.unit], array.is_null()
    seconds, rest = np.divmod(array.view(pa.int64()).fill_null(0).to_numpy(), unit)
    nanos = (rest * (_PER_SECOND["ns"] // unit)).astype(np.int32)
    # make the fields null too, because the vendor's client ignores nulls of the struct
    absent = nulls.to_numpy(zero_copy_only=False)
    parts = [pa.array(part, mask=absent) for part in (seconds, nanos)]
    return pa.StructArray.from_arrays(parts, fields=list(SECONDS_AND_NANOS), mask=nulls)


def for_tunnel(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns and types of a tunnel's stream; columns match by name.

    Raises `ConversionError` for a time outside the range of nanoseconds.
    """
    arrays = []
    for field in schema:
        array = batch.column(field.name)
        try:
            arrays.append(with_leaves(array, field.type, _leaf_for_tunnel))
        except pa.ArrowException as error:
            raise ConversionError(
                f"the column {field.name!r} has a value that the tunnel cannot transfer as "
                f"{field.type}: {error}",
                column=field.name,
                source_type=str(array.type),
                target_type=str(field.type),
                hint="write the column to a STRING column, and convert it with SQL",
            ) from error
    return pa.record_batch(arrays, schema=schema)


def _leaf_for_tunnel(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_duration(array.type) and pa.types.is_struct(kind):
        return seconds_and_nanos(array)
    return array.cast(kind)
