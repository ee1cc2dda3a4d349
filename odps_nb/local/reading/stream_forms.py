"""Gives the columns of a stream the forms that `odps_nb.local.forms.Forms` names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.arrow.leaves import columns_of, with_leaf_types, with_leaves
from odps_nb.arrow.types import SECONDS_AND_NANOS
from odps_nb.local.forms import Forms
from odps_nb.local.store.arrow_types import seconds_and_nanos
from odps_nb.schema import TEXT, Column, OdpsType, TypeCode

_TIMESTAMPS = (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)


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
            return SECONDS_AND_NANOS
        if forms.time_zone != "none" and code in (TypeCode.DATETIME, TypeCode.TIMESTAMP):
            return pa.timestamp(came.unit, forms.time_zone)
        if forms.strings == "dictionary" and (code in TEXT or code is TypeCode.BINARY):
            return pa.dictionary(pa.int32(), came)
        return came

    kinds = [
        with_leaf_types(kind, None if column is None else column.type, leaf)
        for kind, column in zip(schema.types, columns_of(schema.names, columns), strict=True)
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
    return seconds_and_nanos(array)
