"""Converts between local times in a time zone and instants.

DATETIME and TIMESTAMP are instants; their Arrow form on the wire has no zone and counts from the
epoch in UTC. TIMESTAMP_NTZ is a local time without a zone, and stays as it is. Where a zone is
known, instants get it as their type (their values stay), and times without a zone are local times
in it.
"""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.schema import ArrayType, Column, MapType, OdpsType, StructType, TableSchema, TypeCode

__all__ = ["INSTANTS", "NoSuchTime", "from_clock", "in_zone", "zoned_type"]

INSTANTS = (TypeCode.DATETIME, TypeCode.TIMESTAMP)
_DAY_NS = 86_400 * 10**9
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # of the years 1 and 9999


class NoSuchTime(ValueError):
    """A local time does not exist: the clocks of the zone were set forward over it."""


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


def from_clock(array: pa.Array, timezone: str) -> pa.Array:
    """Return the instants, in UTC without a zone, of local times in a zone.

    Of a local time that occurs twice, because clocks were set back, the first one is meant. Offsets
    come from Python's zones: Arrow's own function ends with the table of changes (2037), and
    ignores the rule after it.

    Parameters
    ----------
    array
        Timestamps without a zone.

    Raises
    ------
    NoSuchTime
        Clocks of the zone were set forward over one of the times.
    pyarrow.ArrowInvalid
        The unit does not reach one of the instants.
    """
    if array.type.unit == "ns":
        _check_reach(array)
    zone, per_second = ZoneInfo(timezone), _PER_SECOND[array.type.unit]
    days = array.cast(pa.date32()).cast(pa.int32()).dictionary_encode()
    offsets = [_offset_of_day(day, zone) for day in days.dictionary.to_pylist()]
    counts = [None if one is None else one * per_second for one in offsets]
    ahead = pa.array(counts, pa.int64()).take(days.indices)
    clocks = array.cast(pa.int64())
    if None in offsets:
        turning = pc.and_(ahead.is_null(), array.is_valid())
        found = _looked_up(clocks.filter(turning), per_second, zone)
        ahead = pc.replace_with_mask(ahead, turning, found)
    return pc.subtract(clocks, ahead).cast(array.type)


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
    return offset // datetime.timedelta(seconds=1)


def _looked_up(clocks: pa.Array, per_second: int, zone: ZoneInfo) -> pa.Array:
    """Return the offset from UTC at each time, looked up one by one."""
    known: dict[int, int] = {}
    for clock in pc.unique(clocks).to_pylist():
        second = clock // per_second
        if second not in known:
            known[second] = _ahead_at(second, zone)
    return pa.array([known[c // per_second] * per_second for c in clocks.to_pylist()], pa.int64())


def _ahead_at(second: int, zone: ZoneInfo) -> int:
    shown = _EPOCH + datetime.timedelta(seconds=second)
    ahead = _ahead(shown, zone)
    instant = (shown - datetime.timedelta(seconds=ahead)).replace(tzinfo=datetime.UTC)
    if instant.astimezone(zone).replace(tzinfo=None, fold=0) != shown:
        raise NoSuchTime(f"this time does not exist in {zone}: clocks were set forward over it")
    return ahead


def _check_reach(array: pa.Array) -> None:
    """Refuse nanoseconds so near to the ends of their range that an offset could overflow them."""
    found = pc.min_max(array.cast(pa.int64()))
    least, most = found["min"].as_py(), found["max"].as_py()
    if least is not None and (least < -(2**63) + _DAY_NS or most > 2**63 - 1 - _DAY_NS):
        raise pa.ArrowInvalid("nanoseconds cannot hold the instant in every zone")
