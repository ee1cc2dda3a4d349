"""Converts between local times in a time zone and instants.

DATETIME and TIMESTAMP are instants; their Arrow form on the wire has no zone and counts from the
epoch in UTC. TIMESTAMP_NTZ is a local time without a zone, and stays as it is. Where a zone is
known, instants get it as their type (their values stay), and times without a zone are local times
in it.
"""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from odps_nb.convert.numpy_arrays import Mask, Numbers, array_from
from odps_nb.schema import ArrayType, Column, MapType, OdpsType, StructType, TableSchema, TypeCode

__all__ = ["INSTANTS", "UnitTooFine", "from_clock", "in_zone", "to_clock", "zoned_type"]

INSTANTS = (TypeCode.DATETIME, TypeCode.TIMESTAMP)
_DAY_NS = 86_400 * 10**9
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime.datetime(1970, 1, 1)
_SECOND = datetime.timedelta(seconds=1)
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # of the years 1 and 9999


class UnitTooFine(Exception):
    """Nanoseconds do not reach a time; microseconds do."""


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


def from_clock(numbers: Numbers, valid: Mask, unit: str, timezone: str) -> tuple[Numbers, Mask]:
    """Return the instants, counted in UTC, of local times in a zone, and which do not exist.

    Of a local time that occurs twice, because clocks were set back, the first one is meant. Offsets
    come from Python's zones: Arrow's own function ends with the table of changes (2037), and
    ignores the rule after it.

    Parameters
    ----------
    numbers
        Local times, counted in ``unit`` since 1970-01-01 00:00 local time.
    valid
        Which of them are no nulls.

    Raises
    ------
    UnitTooFine
        A time is so near to the end of what nanoseconds reach that an offset could overflow them.
    """
    per_second = _PER_SECOND[unit]
    if unit == "ns" and (np.abs(numbers) > 2**63 - 1 - _DAY_NS).any():
        raise UnitTooFine
    zone = ZoneInfo(timezone)
    days = array_from(numbers // (86_400 * per_second), pa.int64()).dictionary_encode()
    offsets = [_offset_of_day(day, zone) for day in days.dictionary.to_pylist()]
    indices = days.indices.to_numpy()
    ahead = np.array([one or 0 for one in offsets], np.int64)[indices]
    missing = np.zeros(len(numbers), bool)
    turning = np.array([one is None for one in offsets], bool)[indices] & valid
    if turning.any():
        seconds = array_from(numbers[turning] // per_second, pa.int64()).dictionary_encode()
        found = [_ahead_at(second, zone) for second in seconds.dictionary.to_pylist()]
        places = seconds.indices.to_numpy()
        ahead[turning] = np.array([one or 0 for one in found], np.int64)[places]
        missing[turning] = np.array([one is None for one in found], bool)[places]
    return numbers - ahead * per_second, missing


def to_clock(numbers: Numbers, unit: str, timezone: str) -> Numbers:
    """Return what the clocks of a zone show at instants, counted as they are."""
    per_second = _PER_SECOND[unit]
    zone = pa.scalar(0, pa.timestamp("s", timezone)).as_py().tzinfo  # Arrow's "+08:00", too
    seconds = array_from(numbers // per_second, pa.int64()).dictionary_encode()
    ahead = [_ahead_of_instant(second, zone) for second in seconds.dictionary.to_pylist()]
    shift: Numbers = np.array(ahead, np.int64)[seconds.indices.to_numpy()] * per_second
    return numbers + shift


def _ahead_of_instant(second: int, zone: datetime.tzinfo) -> int:
    if not (_FIRST_DAY + 1) * 86_400 <= second < _LAST_DAY * 86_400:  # for the caller to refuse
        return 0
    instant = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(seconds=second)
    return (instant.astimezone(zone).utcoffset() or datetime.timedelta()) // _SECOND


def _offset_of_day(day: int, zone: ZoneInfo) -> int | None:
    """Return the zone's offset from UTC in seconds; ``None`` if it changes on that day."""
    if not _FIRST_DAY <= day <= _LAST_DAY:  # refused by the caller, who knows the column
        return 0
    begin = _EPOCH + datetime.timedelta(days=day)
    ends = (begin, datetime.datetime.combine(begin, datetime.time.max))
    found = {_ahead(end.replace(fold=fold), zone) for end in ends for fold in (0, 1)}
    return found.pop() if len(found) == 1 else None


def _ahead(clock: datetime.datetime, zone: ZoneInfo) -> int:
    offset = clock.replace(tzinfo=zone).utcoffset() or datetime.timedelta()
    return offset // _SECOND


def _ahead_at(second: int, zone: ZoneInfo) -> int | None:
    """Return the offset at a local time; ``None`` if clocks were set forward over it."""
    clock = _EPOCH + datetime.timedelta(seconds=second)
    ahead = _ahead(clock, zone)
    instant = (clock - datetime.timedelta(seconds=ahead)).replace(tzinfo=datetime.UTC)
    shown = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    return ahead if shown == clock else None
