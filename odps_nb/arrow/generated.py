"""Computes the values of generated partition columns.

The rules follow the Java and Go SDKs (``TruncTime``) and the manual page *Auto partition table
based on data writing time*. Instants are truncated in UTC, regardless of the project's time zone.
A null becomes ``__NULL__``. A time before 1960 becomes the last unit of 1959 (as day: 1959-12-31).
"""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.schema import Generated

_NULL = "__NULL__"
_EARLIEST = datetime.datetime(1959, 12, 31, 23)
_LENGTH = {"year": 4, "month": 7, "day": 10, "hour": 19}


def generated_values(made: Generated, source: pa.Array) -> pa.Array:
    """Return ``trunc_time(source, unit)`` as text for each value of a date or time column."""
    if pa.types.is_date(source.type):
        source = source.cast(pa.timestamp("s"))
    earliest = pa.scalar(_EARLIEST, source.type)
    times = pc.max_element_wise(source, earliest, skip_nulls=False)
    times = pc.floor_temporal(times, unit=made.unit).cast(pa.timestamp("s")).dictionary_encode()
    texts = pc.utf8_slice_codeunits(times.dictionary.cast(pa.string()), 0, _LENGTH[made.unit])
    return pc.fill_null(texts.take(times.indices), _NULL)
