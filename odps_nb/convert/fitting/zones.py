"""Converts between local times in a time zone and instants, for the years 1 to 9999.

Offsets come from Python's time zones, because Arrow's functions use only the transitions up to 2037
and ignore the rule for later years.
"""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from odps_nb.convert.fitting.fixed_width import Mask, Numbers, array_from
from odps_nb.errors import ConversionError

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_NS = 86_400 * 10**9
_EPOCH = datetime.datetime(1970, 1, 1)
_SECOND = datetime.timedelta(seconds=1)
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # first day of year 1, last day of year 9999


class UnitTooFine(Exception):
    """A time is out of range in nanoseconds, but not in microseconds."""


def from_clock(numbers: Numbers, valid: Mask, unit: str, timezone: str) -> tuple[Numbers, Mask]:
    """Convert local times in a zone to UTC instants; return them and the mask of nonexistent times.

    If a local time occurs twice because clocks were set back, the first one is used.

    ``numbers``: local times, counted in ``unit`` since 1970-01-01 00:00 local time. ``valid``:
    mask of the non-null values.
    """
    per_second = PER_SECOND[unit]
    if unit == "ns" and (np.abs(numbers) > 2**63 - 1 - _DAY_NS).any():
        raise UnitTooFine
    zone = ZoneInfo(timezone)
    days = array_from(numbers // (86_400 * per_second), pa.int64()).dictionary_encode()
    offsets = [_offset_of_day(day, zone) for day in days.dictionary.to_pylist()]
    indices = days.indices.to_numpy()
    ahead = np.array([offset or 0 for offset in offsets], np.int64)[indices]
    missing = np.zeros(len(numbers), bool)
    turning = np.array([offset is None for offset in offsets], bool)[indices] & valid
    if turning.any():
        seconds = array_from(numbers[turning] // per_second, pa.int64()).dictionary_encode()
        turning_offsets = [_ahead_at(second, zone) for second in seconds.dictionary.to_pylist()]
        second_indices = seconds.indices.to_numpy()
        ahead[turning] = np.array([offset or 0 for offset in turning_offsets], np.int64)[
            second_indices
        ]
        missing[turning] = np.array([offset is None for offset in turning_offsets], bool)[
            second_indices
        ]
    return numbers - ahead * per_second, missing


def zone_of(timezone: str) -> datetime.tzinfo:
    """Return the zone of an Arrow type, even ``+08:00``; raise `ConversionError` if unknown."""
    try:
        zone: datetime.tzinfo = pa.scalar(0, pa.timestamp("s", timezone)).as_py().tzinfo
    except (pa.ArrowInvalid, LookupError):
        raise ConversionError(
            f"the data is in the unknown time zone {timezone!r}",
            source_type=timezone,
            hint="cast the column to a time zone of the IANA database, or to one without a zone",
        ) from None
    return zone


def to_clock(numbers: Numbers, unit: str, timezone: str) -> Numbers:
    """Convert UTC instants to local times in a zone, in the same unit."""
    per_second = PER_SECOND[unit]
    zone = zone_of(timezone)
    seconds = array_from(numbers // per_second, pa.int64()).dictionary_encode()
    ahead = [_ahead_of_instant(second, zone) for second in seconds.dictionary.to_pylist()]
    shift: Numbers = np.array(ahead, np.int64)[seconds.indices.to_numpy()] * per_second
    return numbers + shift


def _ahead_of_instant(second: int, zone: datetime.tzinfo) -> int:
    # Python's datetime covers the years 1 to 9999; near the ends, use the offset of a nearby day.
    second = min(max(second, (_FIRST_DAY + 1) * 86_400), _LAST_DAY * 86_400 - 1)
    instant = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(seconds=second)
    return (instant.astimezone(zone).utcoffset() or datetime.timedelta()) // _SECOND


def _offset_of_day(day: int, zone: ZoneInfo) -> int | None:
    """Return the zone's offset from UTC in seconds; ``None`` if it changes on that day."""
    if not _FIRST_DAY <= day <= _LAST_DAY:  # the caller raises the error
        return 0
    begin = _EPOCH + datetime.timedelta(days=day)
    ends = (begin, datetime.datetime.combine(begin, datetime.time.max))
    offsets = {_ahead(end.replace(fold=fold), zone) for end in ends for fold in (0, 1)}
    return offsets.pop() if len(offsets) == 1 else None


def _ahead(clock: datetime.datetime, zone: ZoneInfo) -> int:
    offset = clock.replace(tzinfo=zone).utcoffset() or datetime.timedelta()
    return offset // _SECOND


def _ahead_at(second: int, zone: ZoneInfo) -> int | None:
    """Return the offset at a local time; ``None`` if the clocks skipped that time."""
    clock = _EPOCH + datetime.timedelta(seconds=second)
    ahead = _ahead(clock, zone)
    instant = (clock - datetime.timedelta(seconds=ahead)).replace(tzinfo=datetime.UTC)
    shown = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    return ahead if shown == clock else None
