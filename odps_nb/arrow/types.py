"""Converts MaxCompute types to Arrow types (``docs/protocol.md`` section 5.1).

There are two forms: the types that a read returns, and the types that a write sends. They differ
only for these types:

===================  ==========================  ================================
type                 read                        write
===================  ==========================  ================================
BLOB                 string: the reference text  binary: the raw reference (6.5)
INTERVAL_DAY_TIME    duration[ns]                struct<sec: int64, nano: int32>
VECTOR(element, n)   fixed-size list of n;       list, as pyodps writes it
                     nested: list
===================  ==========================  ================================

Reads return values of VARIANT and unknown types as sent. Their Arrow type is known only when
rows arrive, and they cannot be written, so both forms are ``null`` here.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from odps_nb.schema import (
    ArrayType,
    DecimalType,
    MapType,
    OdpsType,
    StructType,
    TypeCode,
    VectorType,
)
from odps_nb.type_facts import TYPE_FACTS

#: Arrow types by type code, except times and DECIMAL (parameters) and BLOB (differs for writes).
ARROW_TYPES: Final = {
    code: pa.type_for_alias(facts.arrow) for code, facts in TYPE_FACTS.items() if facts.arrow
}
#: The struct form of times and intervals.
SECONDS_AND_NANOS: Final = pa.struct([("sec", pa.int64()), ("nano", pa.int32())])
BARE_DECIMAL = (38, 18)
_PLAIN = ARROW_TYPES | dict.fromkeys((TypeCode.VARIANT, TypeCode.UNKNOWN), pa.null())


def arrow_type(
    odps: OdpsType,
    *,
    timestamp_unit: str = "ns",
    datetime_unit: str = "ms",
    for_write: bool = False,
) -> pa.DataType:
    """Return the Arrow type of a MaxCompute type.

    ``odps``: the type; DECIMAL without precision and scale means DECIMAL(38, 18).
    ``timestamp_unit``, ``datetime_unit``: ``s``, ``ms``, ``us`` or ``ns``, as requested in the read
    session. ``for_write``: return the form that a write sends, not the form that a read returns.
    """

    def of(inner: OdpsType) -> pa.DataType:
        if isinstance(inner, VectorType):  # Arrow cannot cast null lists to a fixed size
            return pa.list_(_PLAIN[inner.element.code])
        return arrow_type(
            inner,
            timestamp_unit=timestamp_unit,
            datetime_unit=datetime_unit,
            for_write=for_write,
        )

    if isinstance(odps, ArrayType):
        return pa.list_(pa.field("element", of(odps.element)))
    if isinstance(odps, MapType):
        return pa.map_(of(odps.key), of(odps.value))
    if isinstance(odps, StructType):
        return pa.struct([pa.field(member.name, of(member.type)) for member in odps.fields])
    if isinstance(odps, VectorType):
        element = _PLAIN[odps.element.code]
        return pa.list_(element) if for_write else pa.list_(element, odps.length)
    if isinstance(odps, DecimalType):
        precision, scale = decimal_size(odps)
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    if odps.code in _PLAIN:
        return _PLAIN[odps.code]
    return {
        TypeCode.DATETIME: pa.timestamp(datetime_unit),
        TypeCode.TIMESTAMP: pa.timestamp(timestamp_unit),
        TypeCode.TIMESTAMP_NTZ: pa.timestamp(timestamp_unit),
        TypeCode.INTERVAL_DAY_TIME: SECONDS_AND_NANOS if for_write else pa.duration("ns"),
        TypeCode.BLOB: pa.binary() if for_write else pa.string(),
    }[odps.code]


def decimal_size(odps: DecimalType) -> tuple[int, int]:
    """Return the precision and scale; (38, 18) if the type does not state them."""
    if odps.precision is None:
        return BARE_DECIMAL
    return odps.precision, odps.scale or 0
