"""Gives the columns of a stream the forms that `odps_nb.local.forms.Forms` names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.arrow.leaves import columns_of, with_leaf_types, with_leaves
from odps_nb.local.forms import Forms
from odps_nb.schema import TEXT, Column, OdpsType, TypeCode

__all__ = ["formed"]

_TIMESTAMPS = (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
_SEC_NANO = pa.struct([("sec", pa.int64()), ("nano", pa.int32())])
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def formed(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], columns: Sequence[Column], forms: Forms
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of a stream and its batches in the forms of the service.

    Parameters
    ----------
    columns
        The columns that the stream is read from.
    """

    def leaf(came: pa.DataType, odps: OdpsType | None) -> pa.DataType:
        code = None if odps is None else odps.code
        if forms.timestamps == "struct" and code in _TIMESTAMPS:
            return _SEC_NANO
        if forms.time_zone != "none" and code in (TypeCode.DATETIME, TypeCode.TIMESTAMP):
            return pa.timestamp(came.unit, forms.time_zone)
        if forms.strings == "dictionary" and (code in TEXT or code is TypeCode.BINARY):
            return pa.dictionary(pa.int32(), came)
        return came

    kinds = [
        with_leaf_types(kind, None if column is None else column.type, leaf)
        for kind, column in zip(schema.types, columns_of(schema, columns), strict=True)
    ]
    if kinds == schema.types:
        return schema, batches
    sent = pa.schema(map(pa.Field.with_type, schema, kinds))
    return sent, (
        pa.record_batch(list(map(_formed, batch.columns, kinds)), schema=sent) for batch in batches
    )


def _formed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return with_leaves(array, kind, _leaf)


def _leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pt.is_timestamp(kind):
        return array.view(kind)
    if pt.is_dictionary(kind):
        return array.dictionary_encode()
    counts, per_second = array.view(pa.int64()), _PER_SECOND[array.type.unit]
    second = pc.divide(counts, per_second)
    part = pc.subtract(counts, pc.multiply(second, per_second))
    before = pc.less(part, 0).cast(pa.int64())  # the division rounded up
    second, part = pc.subtract(second, before), pc.add(part, pc.multiply(before, per_second))
    nano = pc.multiply(part, _PER_SECOND["ns"] // per_second).cast(pa.int32())
    return pa.StructArray.from_arrays(
        [second.fill_null(0), nano.fill_null(0)], fields=list(kind), mask=array.is_null()
    )
