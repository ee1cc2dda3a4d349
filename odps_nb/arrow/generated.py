"""Computes the values of partition columns that are made of another column.

The rules are those of the Java and the Go SDK (``TruncTime``) and of the manual, page *Auto
partition table based on data writing time*: instants are truncated in UTC, whatever the time zone
of the project; a null becomes ``__NULL__``, and a time before 1960 the last unit of 1959.
"""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.schema import Generated

__all__ = ["generated_values"]

_NULL = "__NULL__"
_FIRST = datetime.datetime(1960, 1, 1)
_EARLIER = {"year": "1959", "month": "1959-12", "day": "1959-12-31", "hour": "1959-12-31 23:00:00"}
_LENGTH = {"year": 4, "month": 7, "day": 10, "hour": 19}


def generated_values(made: Generated, source: pa.Array) -> pa.Array:
    """Return the text of ``trunc_time(source, unit)`` for each value of a date or time column."""
    if pa.types.is_date(source.type):
        source = source.cast(pa.timestamp("s"))
    times = pc.floor_temporal(source, unit=made.unit).cast(pa.timestamp("s")).dictionary_encode()
    known = times.dictionary
    texts = pc.utf8_slice_codeunits(known.cast(pa.string()), 0, _LENGTH[made.unit])
    texts = pc.if_else(pc.less(known, pa.scalar(_FIRST, known.type)), _EARLIER[made.unit], texts)
    return pc.fill_null(texts.take(times.indices), _NULL)
