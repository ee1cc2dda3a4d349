"""Converts the Arrow encodings that a read may receive to the user-facing types.

The service chooses each column's encoding (``docs/protocol.md`` section 5.2). Text may arrive
dictionary-encoded or as string views, times as ``struct<sec, nano>``, and DECIMAL without precision
and scale as 32 bytes in MaxCompute's own layout. Times may have a time zone, but their values are
always in UTC (TIMESTAMP_NTZ: in local time). The tunnel sends times in nanoseconds even if the read
returns a coarser unit. Any column may be run-end encoded, or have Arrow's null type if all its
values are null. Batches with none of these encodings are returned unchanged.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.arrow.leaves import columns_of, with_leaf_types, with_leaves
from odps_nb.arrow.types import arrow_type
from odps_nb.errors import ConversionError, OversizeError
from odps_nb.schema import Column, DecimalType, OdpsType, TypeCode, VectorType
from odps_nb.terms import TimeUnit

_UNITS = {TimeUnit.SECOND: "s", TimeUnit.MILLI: "ms", TimeUnit.MICRO: "us", TimeUnit.NANO: "ns"}
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DECIMAL_BYTES = 32
_FOR_FAR_TIMES = (
    "read the table with timestamp_unit='us'; for the result of a query, use to_arrow() or "
    "to_pandas()"
)
_BARE_DECIMAL = pa.decimal128(38, 18)
_OF_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_FINE = (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
_TIMES = (*_FINE, TypeCode.DATETIME, TypeCode.INTERVAL_DAY_TIME)
_NULL_BYTES = 16
"""Maximum number of bytes that a null of any type occupies."""


class FarTimeError(ConversionError):
    """A time is out of range in nanoseconds but may be in range in microseconds."""


class PlainColumns:
    """Converts the columns of one stream to plain types.

    ``given``: the stream's schema. ``columns``: the read's columns; ``None`` if unknown,
    in which case structs are unchanged. ``unit``: the unit of TIMESTAMPs sent as
    ``struct<sec, nano>``. ``max_bytes``: maximum size in bytes of a batch's dictionaries, runs,
    views and nulls after they are expanded.
    """

    def __init__(
        self, given: pa.Schema, columns: Sequence[Column] | None, *, unit: TimeUnit, max_bytes: int
    ) -> None:
        self._odps = [
            column.type if column else None for column in columns_of(given.names, columns or ())
        ]
        self._unit, self._max_bytes = unit, max_bytes
        types = given.types
        kinds = list(map(self._plain_type, types, self._odps))
        self._changed = [n for n, kind in enumerate(kinds) if not kind.equals(types[n])]
        self.schema: pa.Schema = pa.schema(map(pa.Field.with_type, given, kinds), given.metadata)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a validated batch of the stream to plain types."""
        if not self._changed:
            return batch
        arrays, fields, budget = batch.columns, list(batch.schema), _Budget(self._max_bytes)
        for n in self._changed:
            # use the batch's own type, because text with invalid UTF-8 is binary in the batch
            kind = self._plain_type(arrays[n].type, self._odps[n])
            convert = partial(_converted, name=fields[n].name, budget=budget)
            arrays[n] = with_leaves(arrays[n], kind, convert)
            fields[n] = fields[n].with_type(kind)
        return pa.record_batch(arrays, schema=pa.schema(fields, batch.schema.metadata))

    def _plain_type(self, given: pa.DataType, odps: OdpsType | None) -> pa.DataType:
        return with_leaf_types(given, odps, self._plain_leaf)

    def _plain_leaf(self, given: pa.DataType, odps: OdpsType | None) -> pa.DataType:
        if (pt.is_dictionary(given) or pt.is_run_end_encoded(given)) and not pt.is_nested(
            given.value_type
        ):
            return self._plain_leaf(given.value_type, odps)
        if given in _OF_VIEWS:
            return _OF_VIEWS[given]
        if pt.is_timestamp(given):
            is_fine = odps is not None and odps.code in _FINE and given.unit == "ns"
            return pa.timestamp(_UNITS[self._unit] if is_fine else given.unit)
        if odps is None:
            return given
        if pt.is_null(given):
            if isinstance(odps, VectorType):  # a fixed-size list needs memory even for nulls
                return pa.list_(pa.field("element", arrow_type(odps.element)))
            return arrow_type(odps, timestamp_unit=_UNITS[self._unit])
        if _is_seconds_and_nanos(given) and odps.code in _TIMES:
            return arrow_type(odps, timestamp_unit=_UNITS[self._unit])
        is_decimal = isinstance(odps, DecimalType) and odps.precision is None
        is_layout = pt.is_fixed_size_binary(given) and given.byte_width == _DECIMAL_BYTES
        return _BARE_DECIMAL if is_decimal and is_layout else given


def _is_seconds_and_nanos(given: pa.DataType) -> bool:
    return bool(
        pt.is_struct(given)
        and [field.name for field in given] == ["sec", "nano"]
        and all(pt.is_integer(field.type) for field in given)
    )


class _Budget:
    """Counter of the bytes that one batch's dictionaries, runs, views and nulls expand to."""

    def __init__(self, limit: int) -> None:
        self._limit, self._spent = limit, 0

    def spend(self, size: int) -> None:
        self._spent += size
        if self._spent > self._limit:
            raise OversizeError(
                f"the encoded columns of an Arrow batch expand to {self._spent} bytes; "
                f"the maximum is {self._limit}",
                limit=self._limit,
                actual=self._spent,
                hint="read smaller batches; if that fails too, the stream may be damaged",
            )


def _converted(array: pa.Array, kind: pa.DataType, *, name: str, budget: _Budget) -> pa.Array:
    given = array.type
    if pt.is_dictionary(given):
        return _expanded(array.dictionary, array.indices, kind, name, budget)
    if pt.is_run_end_encoded(given):
        lengths = np.diff(array.run_ends.to_numpy().clip(0, len(array)), prepend=0)
        runs = pa.array(np.repeat(np.arange(len(lengths)), lengths))
        return _expanded(array.values, runs, kind, name, budget)
    if given in _OF_VIEWS:
        budget.spend(_viewed_bytes(array))
        return array.cast(kind)
    if pt.is_null(given):
        budget.spend(_NULL_BYTES * len(array))
        return pa.nulls(len(array), kind)
    if pt.is_struct(given):
        return _times(array, kind, name)
    if pt.is_fixed_size_binary(given) and pt.is_decimal(kind):
        return pa.array([_decimal(raw, name) for raw in array.to_pylist()], kind)
    if pt.is_timestamp(given) and given.unit != kind.unit:
        return _rounded_down(array, kind)
    return array.view(kind)  # the view only removes the time zone


def _rounded_down(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert nanoseconds to a coarser unit; the tunnel always sends nanoseconds."""
    step = _PER_SECOND["ns"] // _PER_SECOND[kind.unit]
    missing = array.is_null().to_numpy(zero_copy_only=False)
    whole = array.view(pa.int64()).fill_null(0).to_numpy() // step
    return pa.array(whole, mask=missing).view(kind)


def _expanded(
    values: pa.Array, indices: pa.Array, kind: pa.DataType, name: str, budget: _Budget
) -> pa.Array:
    if not values.type.equals(kind):
        values = _converted(values, kind, name=name, budget=budget)
    try:
        sizes = pc.binary_length(values).cast(pa.int64())
    except pa.ArrowNotImplementedError:
        size = 0 if pt.is_null(kind) else len(indices) * (int(kind.bit_width) + 7 >> 3)
    else:
        size = int(pc.sum(sizes.take(indices)).as_py() or 0)
    budget.spend(size)
    return values.take(indices)


def _viewed_bytes(array: pa.Array) -> int:
    if not len(array):
        return 0
    lengths = np.frombuffer(array.buffers()[1], np.int32)[4 * array.offset :: 4][: len(array)]
    return int(lengths[array.is_valid().to_numpy(zero_copy_only=False)].sum(dtype=np.int64))


def _times(array: pa.StructArray, kind: pa.DataType, name: str) -> pa.Array:
    """Convert seconds and nanoseconds to whole time units, rounded down."""
    per_second = _PER_SECOND[kind.unit]
    step = _PER_SECOND["ns"] // per_second
    try:
        second, nano = (part.cast(pa.int64()) for part in array.flatten())
        # count negative times down from the next second, since 10^9 * second alone may overflow
        before = pc.less(second, 0).cast(pa.int64())
        ahead = pc.subtract_checked(nano, pc.multiply(before, _PER_SECOND["ns"]))
        quotient = pc.divide(ahead, step)
        rounded_up = pc.greater(pc.multiply(quotient, step), ahead)
        part = pc.subtract(quotient, rounded_up.cast(pa.int64()))
        whole = pc.multiply_checked(pc.add(second, before), per_second)
        return pc.add_checked(whole, part).view(kind)
    except pa.ArrowInvalid:
        fine = kind.unit == "ns"
        raise (FarTimeError if fine else ConversionError)(
            f"a time in column {name!r} is outside the range of {kind}",
            column=name,
            source_type=str(array.type),
            target_type=str(kind),
            hint=_FOR_FAR_TIMES if fine else "cast the column to STRING in SQL",
        ) from None


_LAYOUT = struct.Struct("<bbbb6i4x")
_DIGITS = Context(prec=54)  # six groups of nine digits


def _decimal(raw: bytes | None, name: str) -> Decimal | None:
    """Decode a DECIMAL in MaxCompute's own 32-byte layout.

    ::

        i8 is null · i8 is negative · i8 groups before the point (0 to 4) · i8 after it (0 to 2)
        6 × i32 LE groups of nine decimal digits · 4 bytes padding

    The least significant group comes first. Source: ``ArrowDecimalExtensionAccessor`` in the
    Java SDK.
    """
    if raw is None:
        return None
    is_null, negative, before, after, *groups = _LAYOUT.unpack(raw)
    if is_null:
        return None
    shown = groups[2 - after : 2 + before] if 0 <= before <= 4 and 0 <= after <= 2 else [-1]
    number = sum(group * 10 ** (9 * n) for n, group in enumerate(shown))
    if not all(0 <= group < 10**9 for group in shown) or number >= 10 ** (20 + 9 * after):
        raise ConversionError(
            f"a value in the DECIMAL column {name!r} does not fit {_BARE_DECIMAL}",
            column=name,
            source_type=f"fixed_size_binary[{_DECIMAL_BYTES}]",
            target_type=str(_BARE_DECIMAL),
            hint="exclude the column with columns=[…], or cast it in SQL",
        )
    return Decimal(-number if negative > 0 else number).scaleb(-9 * after, _DIGITS)
