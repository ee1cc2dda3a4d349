"""Converts times in SQL between the statement's time zone and UTC, keeping all digits.

DuckDB stores instants as local times in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from odps_nb.local import errors
from odps_nb.local.duck_text import compared_with
from odps_nb.local.sql.ddl import ZONE, zone_of
from odps_nb.local.sql.trees import call, cast, forget, wrap
from odps_nb.schema import TypeCode

_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "UCT")
_CLOCK = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(\.\d+)?(?: ?(Z|[+-]\d\d(?::?\d\d)?))?)?"
)
_INFINITE = ("infinity", "-infinity")
_DUCK = {"DATETIME": "TIMESTAMP_MS", "TIMESTAMP": "TIMESTAMP"}
_CUT = ("DATETIME",)  # a TIMESTAMP keeps the unit of its value
_CLOCKS = {TypeCode.DATE, TypeCode.TIMESTAMP_NTZ}
_TIMES = {TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ}
# Range of 64-bit nanoseconds; DuckDB interprets the first and last value as infinite.
_FIRST, _LAST = "1677-09-21 00:12:43.145224193", "2262-04-11 23:47:16.854775807"

_YEAR_MONTH = re.compile(r"(-?)(\d+)-(\d\d?)")
_DAY_TIME = re.compile(r"(-?)(\d+) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)(0*)")
_SECONDS = re.compile(r"-?\d+\.\d{1,6}0*")


class SessionClock:
    """Converts between text, instants and a session's local time; with ``fine``, in nanoseconds."""

    def __init__(self, name: str, *, fine: bool = True) -> None:
        self._zone, self._fine = zone_of(name), fine
        self.is_utc = self._zone.key in _UTC

    def read(self, node: Any, target: str, *, is_text: bool = False, strict: bool = False) -> None:
        """Convert text or a local time to an instant. With ``strict``, invalid text is an error."""
        if isinstance(node, exp.Literal) and is_read(node):
            if match := _CLOCK.fullmatch(node.this):
                node.set("this", _in_utc(match, self._zone))
                if target == "TIMESTAMP" and _is_far(node.this):
                    _in_micros(compared_with(node))
            # cast, because no other operand determines the constant's type
            if isinstance(node.parent, (exp.Alias, exp.Select)):
                wrap(node, lambda text: cast(text, _DUCK[target]))
        elif is_text:
            kind = exp.Cast if strict or isinstance(node, exp.Literal) else exp.TryCast
            wrap(node, lambda text: self._of_text(text, target, kind))
        else:
            wrap(node, lambda clock: self._of_clock(clock, target))

    def cast(self, node: Any, target: str, *, is_text: bool) -> None:
        """Replace a cast with a conversion of its operand to an instant."""
        if is_text:
            wrap(node, lambda cast_node: self._of_text(cast_node.this, target, type(cast_node)))
        elif not self.is_utc:
            wrap(node, lambda cast_node: self._of_clock(cast_node, target))

    def cast_fine(self, node: Any, source: str, target: str) -> None:
        """Replace a cast between TIMESTAMP and a local time with one that keeps all digits."""

        def convert(cast_node: Any) -> Any:
            if source == target or self.is_utc:
                return exp.Paren(this=cast_node.this)
            return (
                self._local(cast_node.this)
                if source == "TIMESTAMP"
                else self._moved(cast_node.this)
            )

        wrap(node, convert)

    def read_clock(self, node: Any) -> None:
        """Convert text or a time to a local time in microseconds, in place."""
        wrap(node, lambda value: cast(value, "TIMESTAMP", exp.TryCast), typed=False)

    def read_fine(self, node: Any) -> None:
        """Replace a cast of text with the local time in the text, including nanoseconds."""
        wrap(
            node,
            lambda cast_node: self._clock_of(call("mc_date", cast_node.this), type(cast_node)),
        )

    def show(self, node: Any, *, as_text: bool = False, is_instant: bool = True) -> None:
        """Replace an instant with its local time, or with that time as text."""

        def convert(inner: Any) -> Any:
            shown = self._local(inner) if is_instant and not self.is_utc else inner
            return cast(shown, "TEXT") if as_text else shown

        wrap(node, convert, typed=False)

    def show_each(self, node: Any) -> None:
        """Replace an array of instants with an array of their local times."""
        name = exp.to_identifier("instant")
        each = exp.Lambda(this=self._local(exp.column(name.copy())), expressions=[name])
        wrap(node, lambda array: exp.Transform(this=array, expression=each), typed=False)

    def compute(self, node: Any, source: Any, target: str) -> None:
        """Make a node compute with the local time of an instant, and convert the result back."""
        original = source.copy()
        self.show(source)

        def convert(inner: Any) -> Any:
            return self._cut(call("mc_back", inner, original, self._name()), target)

        wrap(node, convert)

    def now(self, node: Any) -> None:
        """Remove the zone of the current time; take the current date and zone from the session."""
        if isinstance(node, exp.CurrentTimezone):
            node.replace(self._name())
            return
        moment = cast(exp.CurrentTimestamp(), "TIMESTAMP")
        if isinstance(node, exp.CurrentDate):
            moment = cast(self._local(moment), "DATE")
        wrap(node, lambda _: moment)

    def _of_clock(self, clock: Any, target: str) -> Any:
        clock = self._cut(clock, target)
        return clock if target in _CUT and self.is_utc else self._cut(self._moved(clock), target)

    def _moved(self, clock: Any) -> Any:
        return call("mc_time", clock) if self.is_utc else call("mc_instant", clock, self._name())

    def _of_text(self, text: Any, target: str, kind: Any) -> Any:
        copy = call("mc_date" if kind is exp.TryCast else "mc_read_time", text.copy())
        clock = cast(copy, "TIMESTAMP", kind) if target in _CUT else self._clock_of(copy, kind)
        return self._cut(call("mc_text", clock, text, self._name()), target)

    def _clock_of(self, text: Any, kind: Any) -> Any:
        name, unit = ("mc_near", "TIMESTAMP_NS") if self._fine else ("mc_micro", "TIMESTAMP")
        return cast(call(name, text), unit, kind)

    def _cut(self, value: Any, target: str) -> Any:
        return cast(value, _DUCK[target]) if target in _CUT else value

    def _local(self, instant: Any) -> Any:
        return call("mc_local", instant, self._name())

    def _name(self) -> Any:
        return exp.Literal.string(self._zone.key)


def is_read(constant: Any) -> bool:
    """Return whether a string constant is infinity, or a time that `constants_in_utc` can parse."""
    return _CLOCK.fullmatch(constant.this) is not None or constant.this in _INFINITE


def constants_in_utc(query: Any, name: str, types: Mapping[str, set[TypeCode]]) -> None:
    """Rewrite time constants, such as ``cast('…' as timestamp)``, in UTC (in place).

    A constant that is compared with a DATE or TIMESTAMP_NTZ column is not converted. A date that is
    compared with a time column becomes midnight of that day. ``types`` are column types by
    lower-case name.
    """
    zone = zone_of(name)
    _split_ranges(query)
    for node in list(query.find_all(exp.Cast)):
        text = node.this
        if not (isinstance(text, exp.Literal) and text.is_string):
            continue
        if match := _CLOCK.fullmatch(text.this):
            column = compared_with(node)
            met = set() if column is None else types.get(column.name.casefold(), set())
            _place(node, match, zone, met)
            _fit(node, column)


def _split_ranges(query: Any) -> None:
    """Rewrite ``between a and b`` as two comparisons, so each constant has its own time unit."""
    for range_ in list(query.find_all(exp.Between)):
        column, low, high = (range_.args.get(key) for key in ("this", "low", "high"))
        if isinstance(column, exp.Column) and not range_.args.get("symmetric"):
            above = exp.GTE(this=column.copy(), expression=low.copy())
            below = exp.LTE(this=column.copy(), expression=high.copy())
            range_.replace(exp.paren(exp.and_(above, below, copy=False), copy=False))


def _place(node: Any, match: re.Match[str], zone: ZoneInfo, met: set[TypeCode]) -> None:
    """Rewrite a constant in UTC; keep it if it is compared with columns without a time zone."""
    kinds = exp.DataType.Type
    if node.to.this == kinds.DATE and match[2] is None and met and met <= _TIMES:
        node.to.set("this", kinds.TIMESTAMP)
        forget(node)
    if node.to.this not in (kinds.TIMESTAMP, kinds.DATETIME):
        return
    if met and met <= _CLOCKS:
        forget(node)  # both sides are local times, so the column is not converted either
    else:
        node.this.set("this", _in_utc(match, zone))


def _fit(node: Any, column: Any | None) -> None:
    """Choose the DuckDB type of a constant: TIMESTAMP_NS for nanoseconds, otherwise TIMESTAMP."""
    kinds = exp.DataType.Type
    match = _CLOCK.fullmatch(node.this.this)
    if match is None or node.to.this not in (kinds.TIMESTAMP, kinds.TIMESTAMPNTZ, kinds.DATETIME):
        return
    fraction = (match[3] or ".").rstrip("0")
    clock = f"{match[1]} {match[2] or '00:00:00'}{fraction:0<10}"
    if not _FIRST <= clock <= _LAST:
        _in_micros(column)
    elif len(fraction) > len(".123456"):
        node.to.set("this", kinds.TIMESTAMP_NS)
        infinite = {_FIRST: "-infinity", _LAST: "infinity"}
        node.this.set("this", infinite.get(clock, node.this.this))


def _is_far(text: str) -> bool:
    """Return whether a UTC time is outside the range of nanoseconds."""
    return not _FIRST[:19] <= text.replace("T", " ")[:19] <= _LAST[:19]


def _in_micros(column: Any | None) -> None:
    """Convert a column to microseconds for a comparison, in place."""
    if column is not None and not isinstance(column.parent, exp.In):
        column.replace(call("mc_micros", column.copy()))


def _in_utc(match: re.Match[str], zone: ZoneInfo) -> str:
    try:
        clock = datetime.fromisoformat(f"{match[1]} {match[2] or '00:00:00'}{match[4] or ''}")
        moment = (clock if match[4] else clock.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:
        raise errors.invalid(
            errors.with_advice(
                f"ODPS-0121095: the time {match[0]!r} of {zone.key} is before the year 1 or after "
                "the year 9999 in UTC",
                f"use a time at least one day away from that limit, or set {ZONE} to UTC",
            )
        ) from None
    except ValueError:
        return match[0]  # DuckDB rejects it
    return f"{moment.replace(tzinfo=None).isoformat(sep=' ')}{match[3] or ''}"


def spell_intervals(query: Any) -> None:
    """Rewrite ``interval '1 02:03:04' day to second`` and ``year to month`` for DuckDB.

    Refuse fractions that DuckDB would drop.
    """
    for interval in query.find_all(exp.Interval):
        text, unit = interval.this.name, interval.args.get("unit")
        if not isinstance(unit, exp.IntervalSpan):
            is_second = unit is not None and unit.name.upper().rstrip("S") == "SECOND"
            if "." in text and not (is_second and _SECONDS.fullmatch(text)):
                raise errors.lacks(f"fractions of an interval such as {text[:40]!r}", is_sure=False)
            continue
        if match := _DAY_TIME.fullmatch(text):
            sign, days, clock, _ = match.groups()
            spelled = f"{sign}{days} days {sign}{clock}"
        elif match := _YEAR_MONTH.fullmatch(text):
            sign, years, months = match.groups()
            spelled = f"{sign}{years} years {sign}{months} months"
        else:
            raise errors.lacks(f"intervals of nanoseconds such as {text[:40]!r}", is_sure=True)
        interval.replace(exp.Interval(this=exp.Literal.string(spelled)))
